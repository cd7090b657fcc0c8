import { type EndpointHealth, healthOf } from '../../../domain/attention.ts';
import type { AcceptedHostKey, AnnouncedHostKey, Endpoint } from '../../api/api-types.ts';
import { toneOf } from '../../attention.ts';
import { Status, type Tone } from './status.tsx';

/** Returns the accepted host keys; undefined if the protocol has none. */
export function hostKeysOf(endpoint: Endpoint): AcceptedHostKey[] | undefined {
  return 'host_keys' in endpoint ? endpoint.host_keys : undefined;
}

/** Returns the keys that the verified server has announced, and that are not accepted. */
export function newHostKeysOf(endpoint: Endpoint): AnnouncedHostKey[] {
  return 'announced_host_keys' in endpoint ? endpoint.announced_host_keys : [];
}

const LABELS: Record<EndpointHealth, string> = {
  endpoint_unreachable: 'Unreachable',
  endpoint_host_key_not_accepted: 'Host key not accepted',
  endpoint_rejects_sign_in: 'Sign-in rejected',
  endpoint_not_trusted: 'Server not trusted',
  endpoint_probe_failed: 'Last probe failed',
  endpoint_host_key_expires_soon: 'Host key expires soon',
  reachable: 'Reachable',
  not_tried: 'Not tried yet',
};

/** Returns whether transfers can reach the endpoint, as far as is known. */
export function shownHealthOf(endpoint: Endpoint): { tone: Tone; label: string } {
  const health = healthOf(endpoint);
  const label = LABELS[health];
  if (health === 'reachable') return { tone: 'good', label };
  return { tone: health === 'not_tried' ? 'neutral' : toneOf(health), label };
}

/** Shows the health of an endpoint, and whether it is paused. */
export function EndpointStates({ endpoint }: { endpoint: Endpoint }) {
  const { tone, label } = shownHealthOf(endpoint);
  return (
    <span class="tags">
      <Status tone={tone}>{label}</Status>
      {endpoint.paused && <Status tone="warning">Paused</Status>}
    </span>
  );
}
