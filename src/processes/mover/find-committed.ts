import { FileError } from '../../adapters/files/port.ts';
import { onSide } from './failure.ts';
import type { Committed, Move } from './move-state.ts';

/** The complete file that the destination should have. */
interface Whole {
  size: number;
  /** Lowercase hex. */
  sha256: string;
}

/**
 * Checks whether a predecessor's commit succeeded: reads the destination back and compares size and
 * SHA-256. Returns null if the file is missing or differs. If the credentials may not read it, it
 * returns null if overwriting is allowed, because a second commit then does no harm. Otherwise it
 * throws AttemptError `permission_denied`.
 */
export async function findCommitted(move: Move, whole: Whole): Promise<Committed | null> {
  const { size, sha256 } = whole;
  const found = await onSide('destination', () =>
    readBack(move, size).catch((error) => handleUnreadable(move, whole, error)),
  );
  if (found !== sha256) return null;
  move.meter.start(size, size, undefined);
  // Only the predecessor knew whether the replace was atomic: it may have removed an older file.
  const verification = {
    size: true,
    source_unchanged: true,
    destination_checksum: 'none',
    read_back: true,
    atomic_replace: false,
  } as const;
  return { bytes: size, sha256, verification };
}

/** Handles a denied read: the credentials may allow only writes, or the file may be archived. */
function handleUnreadable(
  { overwrite, destination }: Move,
  { size, sha256 }: Whole,
  error: unknown,
): null {
  if (!(error instanceof FileError) || error.code !== 'permission_denied') throw error;
  if (overwrite) return null;
  const problem = `Cannot read ${destination.path} to check whether an earlier commit succeeded`;
  const check = `Check whether a file of ${size} bytes with the SHA-256 ${sha256} is there`;
  const advice = `${check}, and allow the endpoint's user to read the files that it writes`;
  throw new FileError('permission_denied', 'commit', `${problem}: ${error.message}. ${advice}`, {
    cause: error,
  });
}

/** Returns the SHA-256 of the file at the destination, or null if none of this size is there. */
async function readBack(
  { destination, buffers, createHasher, signal }: Move,
  size: number,
): Promise<string | null> {
  const file = await destination.endpoint
    .openSource(destination.path, signal)
    .catch((error: unknown) => {
      if (error instanceof FileError && error.code === 'source_not_found') return null;
      throw error;
    });
  if (!file) return null;
  const hasher = createHasher(size);
  try {
    if (file.identity.size !== size) return null;
    for (let offset = 0; offset < size; ) {
      const pooled = await buffers.take(Math.min(buffers.bufferBytes, size - offset), signal);
      try {
        await file.read(offset, pooled.buffer);
        await hasher.update(pooled.buffer);
        offset += pooled.buffer.length;
      } finally {
        pooled.release();
      }
    }
    return await hasher.digest();
  } finally {
    hasher.close();
    await file.close();
  }
}
