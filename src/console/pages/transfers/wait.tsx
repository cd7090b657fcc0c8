import type { WaitingFor } from '../../api/api-types.ts';
import { Time } from '../../components/values/time.tsx';

/** Says why a transfer does not move, and until when if that is known. A list has it in brief. */
export function Wait({
  for: { message, until },
  brief = false,
}: {
  for: WaitingFor;
  brief?: boolean;
}) {
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
