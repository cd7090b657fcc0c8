import { createHash } from 'node:crypto';

/** Returns the fingerprint of a host key in its wire form, as `ssh-keygen -l` prints it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

/** Returns why a host key is not trusted; null if it is the pinned one. */
export function distrust(fingerprint: string, pinned: string | null): string | null {
  if (fingerprint === pinned) return null;
  const presents = `The server presents the host key ${fingerprint}`;
  return pinned === null
    ? `${presents}, and none has been accepted for this endpoint`
    : `${presents}, expected ${pinned}`;
}
