import { createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fieldError } from '../../domain/errors.ts';
import { keyIdOf, parseVerifierKey } from '../../domain/proof/note.ts';
import type { ReceiptVerdict } from '../../domain/proof/receipt.ts';

/** A key in PEM, after the facts that `waybill log keys` prints of it. */
const PEM = /([\s\S]*?)(-----BEGIN PUBLIC KEY-----[\s\S]*?-----END PUBLIC KEY-----)/g;
const UNTIL = /^until +(\S+)$/m;
/** Clocks of processes differ, and a key signs until the event of the next one is in the log. */
const TOLERANCE_MS = 60_000;

/** A public key that the reader trusts. */
export interface TrustedKey {
  publicKey: KeyObject;
  /** When the next key followed; null if the reader did not say so. */
  until: string | null;
}

/**
 * Returns the public keys that `--key` names: `NAME+ID+BASE64`, or a file with that in one line or
 * with keys in PEM, as `waybill log keys` prints them. Throws `validation_failed` if one of them is
 * no Ed25519 key, and what the file system throws.
 */
export async function readPublicKeys(named: string): Promise<KeyObject[]> {
  return (await readTrustedKeys(named)).map(({ publicKey }) => publicKey);
}

/** Returns the same keys, each with the time at which the next one followed, if the file has it. */
export async function readTrustedKeys(named: string): Promise<TrustedKey[]> {
  const text = parseVerifierKey(named) ? named : (await readFile(named, 'utf8')).trim();
  const known = parseVerifierKey(text);
  if (known) return [{ publicKey: known.publicKey, until: null }];
  const keys = Array.from(text.matchAll(PEM), ([, facts = '', pem = '']) => {
    const [, until = '-'] = UNTIL.exec(facts) ?? [];
    return { publicKey: fromPem(pem), until: until === '-' ? null : until };
  });
  if (keys.length > 0 && keys.every(isEd25519)) return keys;
  throw fieldError('--key', `${named} must have Ed25519 public keys in PEM, or be NAME+ID+BASE64`);
}

/**
 * Returns the verdict on a receipt, unless the key that signed it was replaced before its events
 * happened.
 */
export function unlessReplaced(verdict: ReceiptVerdict, keys: TrustedKey[]): ReceiptVerdict {
  if (!verdict.ok) return verdict;
  const { keyId, head, events } = verdict;
  const ends = keys
    .filter(({ publicKey }) => keyIdOf(head.origin, publicKey) === keyId)
    .flatMap(({ until }) => until ?? []);
  for (const until of ends) {
    const end = Date.parse(until) + TOLERANCE_MS;
    const late = events.find(({ metadata }) => !(Date.parse(metadata?.occurred_at) <= end));
    if (late === undefined) continue;
    const at = `${late.type} of ${late.metadata?.occurred_at}`;
    const problem = `the key ${keyId} signed until ${until}, and the receipt has ${at}`;
    return { ok: false, otherKey: false, problems: [problem] };
  }
  return verdict;
}

function isEd25519(key: { publicKey: KeyObject | null; until: string | null }): key is TrustedKey {
  return key.publicKey?.asymmetricKeyType === 'ed25519';
}

function fromPem(pem: string): KeyObject | null {
  try {
    return createPublicKey(pem);
  } catch {
    return null;
  }
}
