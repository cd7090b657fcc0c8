import type { TransferListItem } from '../../api/api-types.ts';
import { reasonOf } from '../../api/error-reasons.ts';

/** Says in few words why a transfer failed, with the whole message on hover. */
export function Reason({ of: { code, message } }: { of: NonNullable<TransferListItem['error']> }) {
  return (
    <span class="wait" title={message}>
      {reasonOf(code).label}
    </span>
  );
}
