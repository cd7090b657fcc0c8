/** A host key that an administrator has accepted. */
export interface HostKey {
  /** As `ssh-keygen -l` prints it. */
  sha256: string;
  /** From then on it is no longer accepted. Null: it never expires. */
  expires_at: string | null;
}

/** A host key that a verified server has announced and proved to own. It is not accepted yet. */
export interface AnnouncedHostKey {
  sha256: string;
  /** Such as `ssh-ed25519`. */
  key_type: string;
  /** The accepted key that the server had presented. */
  verified_by: string;
}

export interface HostKeySettings {
  /** The first accepted key; null if none is. Older versions and clients know no other. */
  host_key_sha256: string | null;
  /** All accepted keys. Null if it is only the first, and that one never expires. */
  host_keys: HostKey[] | null;
}

/** The most keys that an endpoint accepts, and the most that its server can announce. */
export const MAX_HOST_KEYS = 16;

/** Returns the accepted keys. The log has settings of older versions, without `host_keys`. */
export function hostKeysOf({ host_key_sha256, host_keys }: HostKeySettings): HostKey[] {
  if (host_keys?.length) return host_keys;
  return host_key_sha256 === null ? [] : [{ sha256: host_key_sha256, expires_at: null }];
}

/** Returns the settings with these keys as the accepted ones. */
export function withHostKeys<Settings extends HostKeySettings>(
  settings: Settings,
  keys: HostKey[],
): Settings {
  const [first, ...others] = keys;
  const alone = others.length === 0 && !first?.expires_at;
  return { ...settings, host_key_sha256: first?.sha256 ?? null, host_keys: alone ? null : keys };
}

/**
 * Returns the keys after one more was accepted. A key that was accepted before no longer expires.
 */
export function withAccepted(keys: HostKey[], sha256: string): HostKey[] {
  const accepted = { sha256, expires_at: null };
  return keys.some((key) => key.sha256 === sha256)
    ? keys.map((key) => (key.sha256 === sha256 ? accepted : key))
    : [...keys, accepted];
}

/** Returns why a host key is not accepted; null if it is. `now` is in epoch milliseconds. */
export function distrust(sha256: string, accepted: HostKey[], now = Date.now()): string | null {
  const presents = `The server presents the host key ${sha256}`;
  const key = accepted.find((candidate) => candidate.sha256 === sha256);
  if (key) return isExpired(key, now) ? `${presents}, which expired at ${key.expires_at}` : null;
  if (accepted.length === 0) return `${presents}, and none has been accepted for this endpoint`;
  const expected = accepted.map((each) =>
    isExpired(each, now) ? `${each.sha256} (expired)` : each.sha256,
  );
  return `${presents}, expected ${expected.join(' or ')}`;
}

function isExpired({ expires_at }: HostKey, now: number): boolean {
  return expires_at !== null && Date.parse(expires_at) <= now;
}
