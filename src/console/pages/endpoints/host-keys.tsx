import type { AcceptedHostKey, Endpoint } from '../../api/api-types.ts';
import { ConfirmButton } from '../../components/dialogs/confirm.tsx';
import { hostKeysOf, newHostKeysOf } from '../../components/values/endpoint-health.tsx';
import { Time } from '../../components/values/time.tsx';
import { May } from '../../session.tsx';

/** Returns the fingerprints of the accepted host keys. */
export const acceptedKeys = (endpoint: Endpoint): string[] =>
  (hostKeysOf(endpoint) ?? []).map(({ sha256 }) => sha256);

/** Lists accepted host keys with their expiry. */
export function HostKeys({ keys }: { keys: AcceptedHostKey[] }) {
  if (keys.length === 0) return <>None accepted</>;
  return (
    <ul class="plain">
      {keys.map(({ sha256, expires_at }) => (
        <li key={sha256}>
          <code>{sha256}</code>
          {expires_at && (
            <span class="muted">
              {' '}
              {Date.parse(expires_at) > Date.now() ? 'expires' : 'expired'} <Time at={expires_at} />
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

interface NewHostKeysProps {
  endpoint: Endpoint;
  onAccept: (sha256: string) => Promise<unknown>;
}

/** Shows the host keys that the verified server has announced, to be accepted beside the others. */
export function NewHostKeys({ endpoint, onAccept }: NewHostKeysProps) {
  const keys = newHostKeysOf(endpoint);
  if (keys.length === 0) return null;
  return (
    <section class="card" aria-label="New host keys">
      <h2>New host keys</h2>
      <p>
        The server showed an accepted host key and announced{' '}
        {keys.length === 1 ? 'this one' : 'these'} as its own. Transfers do not accept it before you
        do: once the server shows only a new key, they fail.
      </p>
      {keys.map(({ sha256, key_type, announced_at }) => (
        <div class="notice warning" key={sha256}>
          <p>
            {key_type}, announced <Time at={announced_at} />
          </p>
          <code>{sha256}</code>
          <May scope="admin">
            <ConfirmButton
              label="Accept host key"
              title="Accept it beside the others?"
              onConfirm={() => onAccept(sha256)}
            >
              <p>
                <code>{sha256}</code>
              </p>
              <p>
                Compare it with the one that the server’s administrator names. The keys accepted so
                far stay accepted: edit the endpoint to remove one, or to let it expire.
              </p>
            </ConfirmButton>
          </May>
        </div>
      ))}
    </section>
  );
}
