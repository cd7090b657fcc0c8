import { urlOf } from '../../api/client.ts';
import type { LiveTransfer, LiveTransfers } from '../../api/operations.ts';
import { useEvents } from '../../api/use-events.ts';
import { useSession } from '../../session.tsx';

interface LiveOptions {
  /** Only this one. All that are open where it is left out. */
  transferId?: string;
  /** False: there is nothing more to be told. */
  open?: boolean;
}

/**
 * Follows the transfers of the account that is looked at, as they move. True while the stream is up.
 * `isSnapshot`: these are the ones that are open now; before that something may have been missed.
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
