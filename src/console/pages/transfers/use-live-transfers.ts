import { urlOf } from '../../api/client.ts';
import type { LiveTransfer, LiveTransfers } from '../../api/operations.ts';
import { useEvents } from '../../api/use-events.ts';
import { useSession } from '../../session.tsx';

interface LiveOptions {
  /** Follows only this transfer. Without it, all open ones. */
  transferId?: string;
  /** False stops following. */
  open?: boolean;
}

/**
 * Follows the transfers of the current account as they move. Returns true while the stream is open.
 * `isSnapshot`: these are all open transfers; changes before it may have been missed.
 */
export function useLiveTransfers(
  onChange: (transfers: LiveTransfer[], isSnapshot: boolean) => void,
  { transferId, open = true }: LiveOptions = {},
): boolean {
  const { account } = useSession().session;
  const url = open ? urlOf('/v1/transfers/live', { query: { transfer_id: transferId } }) : null;
  return useEvents<LiveTransfers>(url, ['snapshot', 'changes'], (type, { transfers }) => {
    const own = transfers.filter((transfer) => transfer.account === account);
    onChange(own, type === 'snapshot');
  });
}
