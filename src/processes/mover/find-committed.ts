import { FileError } from '../../adapters/files/port.ts';
import { onSide } from './failure.ts';
import type { Move, Moved } from './move-state.ts';

/** A file as it is to stand at the destination. */
interface Whole {
  size: number;
  /** Lowercase hex. */
  sha256: string;
}

/**
 * Whether a predecessor that was about to commit has done so: the destination is read back, and is what
 * it should be. null where it is not there, or something else is, or where committing again does no harm. Throws
 * AttemptError `permission_denied` where it may not be read, and nothing may be overwritten.
 */
export async function findCommitted(move: Move, whole: Whole): Promise<Moved | null> {
  const { size, sha256 } = whole;
  const found = await onSide('destination', () => readBack(move, size).catch((error) => withoutReading(move, whole, error)));
  if (found !== sha256) return null;
  move.figures.size_bytes = size;
  move.figures.transferred_bytes = size;
  // How the name went over to it was the predecessor's to know: an older file may have had to be removed first.
  const verification = {
    size: true,
    source_unchanged: true,
    destination_checksum: 'none',
    read_back: true,
    atomic_replace: false,
  } as const;
  return { bytes: size, sha256, verification };
}

/** What follows from a destination that can't be read: its credentials may be for writing only, or its storage for archives. */
function withoutReading({ overwrite, destination }: Move, { size, sha256 }: Whole, error: unknown): null {
  if (!(error instanceof FileError) || error.code !== 'permission_denied') throw error;
  if (overwrite) return null;
  const looked = `A commit of ${destination.path} was begun, and what is there may not be read to see whether it was done`;
  const advice = `Look whether a file of ${size} bytes with the SHA-256 ${sha256} is there, and let the endpoint's user read what it has written`;
  throw new FileError('permission_denied', 'commit', `${looked}: ${error.message}. ${advice}`, { cause: error });
}

/** SHA-256 of the file at the destination; null where there is none of this size. */
async function readBack({ destination, slots, createHasher, signal }: Move, size: number): Promise<string | null> {
  const file = await destination.endpoint.openSource(destination.path, signal).catch((error: unknown) => {
    if (error instanceof FileError && error.code === 'source_not_found') return null;
    throw error;
  });
  if (!file) return null;
  const hasher = createHasher(size);
  try {
    if (file.identity.size !== size) return null;
    for (let offset = 0; offset < size; ) {
      const slot = await slots.take(Math.min(slots.slotBytes, size - offset), signal);
      try {
        await file.read(offset, slot.buffer);
        await hasher.update(slot.buffer);
        offset += slot.buffer.length;
      } finally {
        slot.release();
      }
    }
    return await hasher.digest();
  } finally {
    hasher.close();
    await file.close();
  }
}
