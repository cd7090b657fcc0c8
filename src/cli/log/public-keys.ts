import { createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fieldError } from '../../domain/errors.ts';
import { parseVerifierKey } from '../../domain/proof/note.ts';

const PEM = /-----BEGIN PUBLIC KEY-----[\s\S]*?-----END PUBLIC KEY-----/g;

/**
 * Returns the public keys that `--key` names: `NAME+ID+BASE64`, or a file with that in one line or
 * with keys in PEM, as `waybill log keys` prints them. Throws `validation_failed` if one of them is
 * no Ed25519 key, and what the file system throws.
 */
export async function readPublicKeys(named: string): Promise<KeyObject[]> {
  const text = parseVerifierKey(named) ? named : (await readFile(named, 'utf8')).trim();
  const known = parseVerifierKey(text);
  if (known) return [known.publicKey];
  const keys = (text.match(PEM) ?? []).map(fromPem);
  if (keys.length > 0 && keys.every((key) => key?.asymmetricKeyType === 'ed25519'))
    return keys as KeyObject[];
  throw fieldError('--key', `${named} must have Ed25519 public keys in PEM, or be NAME+ID+BASE64`);
}

function fromPem(pem: string): KeyObject | null {
  try {
    return createPublicKey(pem);
  } catch {
    return null;
  }
}
