import { createHash } from 'node:crypto';

/** Fingerprint of a host key in its wire form, as `ssh-keygen -l` prints it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

/** Why a host key is not to be trusted, in words; null where it is the pinned one. */
export function distrust(fingerprint: string, pinned: string | null): string | null {
  if (fingerprint === pinned) return null;
  return pinned === null
    ? `The server presents the host key ${fingerprint}, and none has been accepted for this endpoint`
    : `The server presents the host key ${fingerprint}, expected was ${pinned}`;
}
