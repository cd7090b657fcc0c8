import type { Liveness } from '../../api/use-events.ts';
import { Status } from './status.tsx';
import { Time } from './time.tsx';

/** Says whether a page is live, or since when it is not. */
export function Live({ of: { live, since } }: { of: Liveness }) {
  if (live) return <Status tone="good">Live</Status>;
  if (since === null) return <Status tone="neutral">Connecting</Status>;
  return (
    <span>
      <Status tone="warning">Not live</Status> since <Time at={since} />
    </span>
  );
}
