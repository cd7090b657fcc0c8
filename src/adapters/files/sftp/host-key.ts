import { createHash } from 'node:crypto';

/** Returns the fingerprint of a host key in its wire form, as `ssh-keygen -l` prints it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}
