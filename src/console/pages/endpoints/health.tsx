import type { Endpoint } from '../../api/operations.ts';
import { Status } from '../../components/status.tsx';
import { hostKeyOf } from './fields.ts';

/** Shows whether transfers can reach the endpoint, as far as is known. */
function Health({ endpoint }: { endpoint: Endpoint }) {
  const { health, unreachable_since } = endpoint;
  if (unreachable_since !== null) return <Status tone="bad">Unreachable</Status>;
  if (hostKeyOf(endpoint) === null) return <Status tone="warning">Host key not accepted</Status>;
  if (health?.error) return <Status tone="warning">Last probe failed</Status>;
  return health?.last_success_at ? (
    <Status tone="good">Reachable</Status>
  ) : (
    <Status tone="neutral">Not tried yet</Status>
  );
}

/** Shows the health of an endpoint, and whether it is paused. */
export function EndpointStates({ endpoint }: { endpoint: Endpoint }) {
  return (
    <span class="tags">
      <Health endpoint={endpoint} />
      {endpoint.paused && <Status tone="warning">Paused</Status>}
    </span>
  );
}
