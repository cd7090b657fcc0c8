import type { KeyObject } from 'node:crypto';
import { HASH_BYTES, type Hash } from './hash.ts';
import { keyIdOf, type Note, parseNote } from './note.ts';

/** The head of a tree: what a checkpoint of https://c2sp.org/tlog-checkpoint says. */
export interface TreeHead {
  /** Names the log. The name of the keys that sign its checkpoints, too. */
  origin: string;
  /** Number of leaves. */
  size: number;
  root: Hash;
}

/** Returns the origin of the log with this id. It stays the same wherever the log is served. */
export function originOf(logId: string): string {
  return `waybill/${logId}`;
}

/** Returns the text of a checkpoint, which is then signed. */
export function checkpointText({ origin, size, root }: TreeHead): string {
  return `${origin}\n${size}\n${Buffer.from(root).toString('base64')}\n`;
}

/** Returns what the text of a signed note says as a checkpoint; null if it is none. */
export function parseCheckpoint(text: string): TreeHead | null {
  const [origin, size, base64, end] = text.split('\n');
  if (!origin || end === undefined || !/^(0|[1-9]\d{0,15})$/.test(size ?? '')) return null;
  const root = Buffer.from(base64 ?? '', 'base64');
  if (root.length !== HASH_BYTES || root.toString('base64') !== base64) return null;
  return { origin, size: Number(size), root };
}

/** Returns the checkpoint of a signed note; null if it is none. Checks no signature. */
export function headOfNote(note: string): TreeHead | null {
  const parsed = parseNote(note);
  return parsed && parseCheckpoint(parsed.text);
}

/**
 * Says why none of these keys signed a checkpoint: the signature is false, or names a key that the
 * reader did not give (`otherKey`).
 */
export function notSigned(
  { signatures }: Note,
  { origin }: TreeHead,
  publicKeys: KeyObject[],
): { otherKey: boolean; problem: string } {
  const named = signatures.filter(({ name }) => name === origin).map(({ keyId }) => keyId);
  const given = publicKeys.map((key) => keyIdOf(origin, key));
  if (named.length === 0 || named.some((keyId) => given.includes(keyId)))
    return { otherKey: false, problem: 'the key did not sign the checkpoint' };
  return {
    otherKey: true,
    problem:
      `the signature of the checkpoint names the key ${named.join(', ')}, ` +
      `and you gave ${given.join(', ')}`,
  };
}
