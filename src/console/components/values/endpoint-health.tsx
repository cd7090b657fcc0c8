import type { AcceptedHostKey, AnnouncedHostKey, Endpoint } from '../../api/api-types.ts';
import { EXPIRING_SOON_MS } from '../../api/limits.ts';
import { Status, type Tone } from './status.tsx';

/** Returns the accepted host keys; undefined if the protocol has none. */
export function hostKeysOf(endpoint: Endpoint): AcceptedHostKey[] | undefined {
  return 'host_keys' in endpoint ? endpoint.host_keys : undefined;
}

/** Returns the keys that the verified server has announced, and that are not accepted. */
export function newHostKeysOf(endpoint: Endpoint): AnnouncedHostKey[] {
  return 'announced_host_keys' in endpoint ? endpoint.announced_host_keys : [];
}

/** Returns true if the key that the server shows is accepted only for some more days. */
function hostKeyExpiresSoon(endpoint: Endpoint): boolean {
  const shown = endpoint.health?.fingerprint;
  const expiry = hostKeysOf(endpoint)?.find(({ sha256 }) => sha256 === shown)?.expires_at;
  return expiry ? Date.parse(expiry) - Date.now() < EXPIRING_SOON_MS : false;
}

/** The health of an endpoint whose server answers, and rejected the last sign-in. */
export const REJECTED = { tone: 'bad', label: 'Sign-in rejected' } as const;

/** Returns whether transfers can reach the endpoint, as far as is known. */
export function healthOf(endpoint: Endpoint): { tone: Tone; label: string } {
  const { health, unreachable_since } = endpoint;
  if (unreachable_since !== null) return { tone: 'bad', label: 'Unreachable' };
  if (hostKeysOf(endpoint)?.length === 0)
    return { tone: 'warning', label: 'Host key not accepted' };
  if (health?.error?.code === 'auth_failed') return REJECTED;
  if (health?.error) return { tone: 'warning', label: 'Last probe failed' };
  if (hostKeyExpiresSoon(endpoint)) return { tone: 'warning', label: 'Host key expires soon' };
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
