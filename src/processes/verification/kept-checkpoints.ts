import type { KeyObject } from 'node:crypto';
import { basename } from 'node:path';
import { sizeInName } from '../../adapters/checkpoint-sinks/port.ts';
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
 * Returns the checkpoint in a file, or what is wrong with it. Returns null if the file holds none,
 * and has not the name of one. Without keys, checks no signature.
 */
export function readCheckpoint(
  source: string,
  text: string,
  keys: KeyObject[],
  logId: string,
): KeptCheckpoint | DamagedCheckpoint | null {
  const named = sizeInName(basename(source));
  const note = parseNote(text);
  const head = note && parseCheckpoint(note.text);
  if (!note || !head)
    return named !== null || BEGINS.test(text)
      ? { source, problem: 'this checkpoint is damaged' }
      : null;
  if (named !== null && named !== head.size)
    return {
      source,
      problem: `this checkpoint signs ${head.size} events, not the ${named} of its name`,
    };
  const signers = keys.filter((key) => isSignedBy(note, key, head.origin));
  if (keys.length > 0 && signers.length === 0)
    // The ids of keys depend on the log: in another one, the reader would not know them.
    return { source, problem: ofAnother(head, logId) ?? notSigned(note, head, keys).problem };
  const signed = note.signatures.filter(({ name }) => name === head.origin);
  const keyIds =
    keys.length > 0
      ? signers.map((key) => keyIdOf(head.origin, key))
      : signed.map(({ keyId }) => keyId);
  return { ...head, source, keyIds };
}

/** Yields how checkpoints, sorted by size, contradict each other and the name of the log. */
export function* contradictions(checkpoints: KeptCheckpoint[], logId: string): Generator<Fault> {
  for (const checkpoint of checkpoints) {
    const problem = ofAnother(checkpoint, logId);
    if (problem !== null) yield nowhere('checkpoint', `${checkpoint.source}: ${problem}`);
  }
  for (const [i, { source, size, root }] of checkpoints.entries()) {
    const next = checkpoints[i + 1];
    if (next?.size === size && !sameHash(next.root, root))
      yield nowhere('checkpoint', `${source} and ${next.source} sign different logs`);
  }
}

/** Returns what is wrong with a checkpoint of another log; null for one of this log. */
function ofAnother({ origin }: TreeHead, logId: string): string | null {
  const expected = originOf(logId);
  return origin === expected ? null : `it is of the log ${origin}, and this is ${expected}`;
}
