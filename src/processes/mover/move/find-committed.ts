import { isSameSecond } from '../../../adapters/files/modification-time.ts';
import { FileError } from '../../../adapters/files/port.ts';
import { onSide } from '../failure.ts';
import type { Committing, Move, Moved } from './move-state.ts';
import { mtimeOutcome } from './mtime.ts';
import { readAt } from './read-back.ts';

/**
 * Checks whether a predecessor's commit succeeded: reads the destination back and compares size and
 * SHA-256. Returns null if the file is missing, differs, or is replaced meanwhile. If the
 * credentials may not read it, it returns null if overwriting is allowed, because a second commit
 * then does no harm. Otherwise it throws AttemptError `permission_denied`.
 */
export async function findCommitted(move: Move, whole: Committing): Promise<Moved | null> {
  const { size, sha256, modifiedAt } = whole;
  const found = await onSide('destination', () =>
    readAt(move, size).catch((error) => handleUnreadable(move, whole, error)),
  );
  if (found?.sha256 !== sha256) return null;
  move.meter.start(size, size, undefined);
  // Only the predecessor knew whether the replace was atomic: it may have removed an older file.
  const verification = {
    size: true,
    source_unchanged: true,
    destination_checksum: 'none',
    read_back: true,
    atomic_replace: false,
  } as const;
  // Servers store whole seconds.
  const kept = modifiedAt && found.modifiedAt && isSameSecond(modifiedAt, found.modifiedAt);
  const refused = kept ? null : 'The file has another modification time';
  return { bytes: size, sha256, verification, ...mtimeOutcome(modifiedAt, refused) };
}

/**
 * Handles a file that is replaced during the read, or a denied read: the credentials may allow only
 * writes, or the file may be archived.
 */
function handleUnreadable(
  { overwrite, destination }: Move,
  { size, sha256 }: Committing,
  error: unknown,
): null {
  if (!(error instanceof FileError)) throw error;
  if (error.code === 'destination_changed') return null;
  if (error.code !== 'permission_denied') throw error;
  if (overwrite) return null;
  const problem = `Cannot read ${destination.path} to check whether an earlier commit succeeded`;
  const check = `Check whether a file of ${size} bytes with the SHA-256 ${sha256} is there`;
  const advice = `${check}, and allow the endpoint's user to read the files that it writes`;
  throw new FileError('permission_denied', 'commit', `${problem}: ${error.message}. ${advice}`, {
    cause: error,
  });
}
