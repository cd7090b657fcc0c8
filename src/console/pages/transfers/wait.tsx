import type { TransferListItem, WaitingFor } from '../../api/api-types.ts';
import { Time } from '../../components/values/time.tsx';
import { Reason } from './reason.tsx';

interface WaitProps {
  for: WaitingFor;
  /**
   * Of a row of a list, which is brief: the error of the last attempt, which it says before the next
   * one. Null if none failed.
   */
  inRowAfter?: TransferListItem['error'];
}

/** Says why a transfer does not move, and until when if that is known. */
export function Wait({ for: { reason, message, until }, inRowAfter }: WaitProps) {
  const brief = inRowAfter !== undefined;
  if (reason === 'retry_at' && inRowAfter)
    return (
      <span>
        <Reason of={inRowAfter} />{' '}
        <span class="wait">
          Next attempt <Time at={until} brief={brief} />
        </span>
      </span>
    );
  return (
    <span class="wait">
      {message}
      {until !== null && (
        <>
          {' '}
          (<Time at={until} brief={brief} />)
        </>
      )}
    </span>
  );
}
