import type { Endpoint } from '../../api/operations.ts';
import { Status, type Tone } from '../../components/status.tsx';

/** Returns the accepted host key. Null if none is yet, undefined if the protocol has none. */
export function hostKeyOf(endpoint: Endpoint): string | null | undefined {
  return 'host_key_sha256' in endpoint ? endpoint.host_key_sha256 : undefined;
}

/** Returns whether transfers can reach the endpoint, as far as is known. */
export function healthOf(endpoint: Endpoint): { tone: Tone; label: string } {
  const { health, unreachable_since } = endpoint;
  if (unreachable_since !== null) return { tone: 'bad', label: 'Unreachable' };
  if (hostKeyOf(endpoint) === null) return { tone: 'warning', label: 'Host key not accepted' };
  if (health?.error) return { tone: 'warning', label: 'Last probe failed' };
  return health?.last_success_at
    ? { tone: 'good', label: 'Reachable' }
    : { tone: 'neutral', label: 'Not tried yet' };
}

/** Shows the health of an endpoint, and whether it is paused. */
export function EndpointStates({ endpoint }: { endpoint: Endpoint }) {
  const { tone, label } = healthOf(endpoint);
  return (
    <span class="tags">
      <Status tone={tone}>{label}</Status>
      {endpoint.paused && <Status tone="warning">Paused</Status>}
    </span>
  );
}
