import type { WaitingFor } from '../../api/api-types.ts';
import { Time } from '../../components/values/time.tsx';

/** Says why a transfer does not move, and until when if that is known. */
export function Wait({ for: { message, until } }: { for: WaitingFor }) {
  return (
    <span class="wait">
      {message}
      {until !== null && (
        <>
          {' '}
          (<Time at={until} />)
        </>
      )}
    </span>
  );
}
