/*
 * The statement of a signing key: a signed note that names the key and the time from which it
 * signs. The key signs it, and so does the key before it, unless that was lost. Only the
 * signatures count: an attacker who can write to the log can append any event.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';
import { originOf } from './checkpoint.ts';
import { isSignedBy, keyIdOf, type Note, parseNote, verifierKey } from './note.ts';
import type { SigningKey } from './signing-key.ts';

type StatedKey = Pick<SigningKey, 'key_id' | 'public_key' | 'since' | 'statement'>;

/** Returns the text of the statement of a key, which is then signed. */
export function statementText(origin: string, publicKey: KeyObject, since: string): string {
  return `${origin}/keys\n${verifierKey(origin, publicKey)}\n${since}\n`;
}

/** Returns what is wrong with the statement of a key of this log; null if the key signed it. */
export function statementProblem(key: StatedKey, logId: string): string | null {
  const publicKey = readKey(key.public_key);
  if (publicKey === null) return 'its public key is no Ed25519 key';
  const origin = originOf(logId);
  if (keyIdOf(origin, publicKey) !== key.key_id) return 'its public key has another id';
  const note = noteOf(key);
  if (note?.text !== statementText(origin, publicKey, key.since))
    return 'its statement names another key or another time';
  return isSignedBy(note, publicKey, origin) ? null : 'its key did not sign its statement';
}

/** Returns whether the key before it signed the statement of a key of this log. */
export function isSignedByPrevious(
  key: StatedKey,
  previous: Pick<SigningKey, 'public_key'>,
  logId: string,
): boolean {
  const [publicKey, note] = [readKey(previous.public_key), noteOf(key)];
  if (publicKey === null || note === null || statementProblem(key, logId) !== null) return false;
  return isSignedBy(note, publicKey, originOf(logId));
}

function noteOf({ statement }: StatedKey): Note | null {
  return typeof statement === 'string' ? parseNote(statement) : null;
}

/** Reads a public key in PEM. Returns null if it is no Ed25519 key. */
export function readKey(pem: string): KeyObject | null {
  try {
    const key = createPublicKey(pem);
    return key.asymmetricKeyType === 'ed25519' ? key : null;
  } catch {
    return null;
  }
}
