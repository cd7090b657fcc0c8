import type { Endpoint } from '../../api/operations.ts';
import { Status } from '../../components/status.tsx';
import { hostKeyOf } from './fields.ts';

/** Shows whether transfers can reach the endpoint, as far as is known. */
export function Health({ endpoint }: { endpoint: Endpoint }) {
  const { health, unreachable_since } = endpoint;
  if (unreachable_since !== null) return <Status tone="bad">Unreachable</Status>;
  if (hostKeyOf(endpoint) === null) return <Status tone="warning">Host key not accepted</Status>;
  if (health?.error) return <Status tone="warning">In trouble</Status>;
  return health?.last_success_at ? (
    <Status tone="good">Reachable</Status>
  ) : (
    <Status tone="neutral">Not tried yet</Status>
  );
}

export function Activity({ paused }: { paused: boolean }) {
  return paused ? <Status tone="warning">Paused</Status> : <Status tone="good">Active</Status>;
}
