import type { KeyObject } from 'node:crypto';
import {
  notSigned,
  originOf,
  parseCheckpoint,
  type TreeHead,
} from '../../domain/proof/checkpoint.ts';
import { sameHash } from '../../domain/proof/hash.ts';
import { isSignedBy, keyIdOf, parseNote } from '../../domain/proof/note.ts';
import { type Fault, nowhere } from './fault.ts';

/** A checkpoint that was kept outside the installation. */
export interface KeptCheckpoint extends TreeHead {
  /** Where it was kept: the name of a file. */
  source: string;
  /** Ids of the keys that signed it. Without keys, those that its signatures name. */
  keyIds?: string[];
}

/** A file with a checkpoint that was damaged or forged. */
export interface DamagedCheckpoint {
  source: string;
  problem: string;
}

/** The start of a checkpoint. Statements of keys have another name, and so have the keys. */
const BEGINS = /^waybill\/[^/+\s]+(\s|$)/;

/**
 * Returns the checkpoint in a file, or what is wrong with it. Returns null if the file holds none.
 * Without keys, checks no signature.
 */
export function readCheckpoint(
  source: string,
  text: string,
  keys: KeyObject[],
): KeptCheckpoint | DamagedCheckpoint | null {
  const note = parseNote(text);
  const head = note && parseCheckpoint(note.text);
  if (!note || !head)
    return BEGINS.test(text) ? { source, problem: 'this checkpoint is damaged' } : null;
  if (keys.length > 0 && !keys.some((key) => isSignedBy(note, key, head.origin)))
    return { source, problem: notSigned(note, head, keys).problem };
  const signers = keys.filter((key) => isSignedBy(note, key, head.origin));
  const named = note.signatures.filter(({ name }) => name === head.origin);
  const keyIds =
    keys.length > 0
      ? signers.map((key) => keyIdOf(head.origin, key))
      : named.map(({ keyId }) => keyId);
  return { ...head, source, keyIds };
}

/** Yields how checkpoints, sorted by size, contradict each other and the name of the log. */
export function* contradictions(checkpoints: KeptCheckpoint[], logId: string): Generator<Fault> {
  const expected = originOf(logId);
  for (const { source, origin } of checkpoints)
    if (origin !== expected)
      yield nowhere('checkpoint', `${source} is of the log ${origin}, and this is ${expected}`);
  for (const [i, { source, size, root }] of checkpoints.entries()) {
    const next = checkpoints[i + 1];
    if (next?.size === size && !sameHash(next.root, root))
      yield nowhere('checkpoint', `${source} and ${next.source} sign different logs`);
  }
}
