import { FileError } from '../../adapters/files/port.ts';
import { onSide } from './failure.ts';
import type { Move, Moved } from './move-state.ts';

/**
 * Whether a predecessor that was about to commit has done so: the destination is read back, and is what
 * it should be. null where it is not there, or something else is.
 */
export async function findCommitted(move: Move, { size, sha256 }: { size: number; sha256: string }): Promise<Moved | null> {
  const found = await onSide('destination', () => readBack(move, size));
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
