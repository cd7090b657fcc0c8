import { useRef } from 'preact/hooks';
import type { LiveTransfer, LiveTransfers } from '../../api/api-types.ts';
import { urlOf } from '../../api/client.ts';
import { type Liveness, useEvents } from '../../api/use-events.ts';
import { useSession } from '../../session.tsx';

interface LiveOptions {
  /** Follows only this transfer. Without it, all open ones. */
  transferId?: string;
  /** False stops following. */
  open?: boolean;
}

/**
 * Follows the transfers of the current account as they move. `isSnapshot`: these are all open transfers. `incomplete`: others may have begun and ended, while
 * the stream was broken or too many for it to tell.
 */
export function useLiveTransfers(
  onChange: (transfers: LiveTransfer[], isSnapshot: boolean, incomplete: boolean) => void,
  { transferId, open = true }: LiveOptions = {},
): Liveness {
  const { account } = useSession().session;
  const followed = useRef(false);
  const url = open ? urlOf('/v1/transfers/live', { query: { transfer_id: transferId } }) : null;
  return useEvents<LiveTransfers>(url, ['snapshot', 'changes'], (type, data) => {
    const own = data.transfers.filter((transfer) => transfer.account === account);
    const isSnapshot = type === 'snapshot';
    onChange(own, isSnapshot, isSnapshot ? followed.current : data.more_ended > 0);
    followed.current = true;
  });
}
