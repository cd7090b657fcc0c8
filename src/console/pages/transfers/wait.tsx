import type { TransferListItem, WaitingFor } from '../../api/api-types.ts';
import { Time } from '../../components/values/time.tsx';
import { Reason } from './reason.tsx';

interface WaitProps {
  for: WaitingFor;
  /** With which error the last attempt failed. Null if it did not. */
  after?: TransferListItem['error'];
  brief?: boolean;
}

/**
 * Says why a transfer does not move, and until when if that is known. A list has it in brief, with
 * the error that the next attempt follows.
 */
export function Wait({ for: { reason, message, until }, after = null, brief = false }: WaitProps) {
  if (reason === 'retry_at' && after !== null)
    return (
      <span>
        <Reason of={after} />{' '}
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
