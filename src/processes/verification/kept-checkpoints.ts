import type { KeyObject } from 'node:crypto';
import { DomainError } from '../../domain/errors.ts';
import { parseCheckpoint, type TreeHead } from '../../domain/proof/checkpoint.ts';
import { isSignedBy, parseNote } from '../../domain/proof/note.ts';

/** A checkpoint that was kept outside the installation. */
export interface KeptCheckpoint extends TreeHead {
  /** Where it was kept: the name of a file. */
  source: string;
}

/**
 * Returns the checkpoint in a file; null if the file holds none. Throws `validation_failed` for one
 * that none of the keys signed, unless there are no keys.
 */
export function readCheckpoint(
  source: string,
  text: string,
  keys: KeyObject[],
): KeptCheckpoint | null {
  const note = parseNote(text);
  const head = note && parseCheckpoint(note.text);
  if (!note || !head) return null;
  if (keys.length > 0 && !keys.some((key) => isSignedBy(note, key)))
    throw new DomainError('validation_failed', `${source}: no given key signed this checkpoint`);
  return { ...head, source };
}
