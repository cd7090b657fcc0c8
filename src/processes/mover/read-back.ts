/*
 * Reads a destination and compares it with what was read from the source.
 */
import type { UnixTime } from '../../adapters/files/modification-time.ts';
import { type DestinationFile, FileError, type SourceFile } from '../../adapters/files/port.ts';
import { AttemptError, onSide } from './failure.ts';
import type { Committing, Move } from './move-state.ts';

/**
 * Compares what is written with the source, before it gets its name. Returns false if the server
 * does not show it before the commit. Throws AttemptError `checksum_mismatch`.
 */
export async function compareWritten(
  move: Move,
  destination: DestinationFile,
  whole: Committing,
): Promise<boolean> {
  return verifying(async () => {
    const file = await destination.openWritten();
    if (file) refuseOther(whole, await hashOf(move, file, whole.size));
    return file !== null;
  });
}

/** Compares the file under its name with the source. Throws AttemptError `checksum_mismatch`. */
export async function comparePublished(move: Move, whole: Committing): Promise<void> {
  await verifying(async () => refuseOther(whole, (await readAt(move, whole.size))?.sha256 ?? null));
}

function refuseOther({ size, sha256 }: Committing, found: string | null): void {
  if (found === sha256) return;
  const other = found === null ? `no file of ${size} bytes` : `the SHA-256 ${found}`;
  const message = `Read back, the destination has ${other}; the source has the SHA-256 ${sha256}`;
  throw new AttemptError({ code: 'checksum_mismatch', message, phase: 'verify' });
}

/** Runs work at the destination. A failure is one of the verification, whatever the step. */
function verifying<T>(work: () => Promise<T>): Promise<T> {
  return onSide('destination', () =>
    work().catch((error: unknown) => {
      if (!(error instanceof FileError) || !['open', 'transfer'].includes(error.step)) throw error;
      throw new FileError(error.code, 'verify', error.message, { cause: error });
    }),
  );
}

/** Reads the file at the destination. Returns null if none of this size is there. */
export async function readAt(
  move: Move,
  size: number,
): Promise<{ sha256: string; modifiedAt: UnixTime | null } | null> {
  const { endpoint, path } = move.destination;
  const file = await endpoint.openSource(path, move.signal).catch((error: unknown) => {
    if (error instanceof FileError && error.code === 'source_not_found') return null;
    throw error;
  });
  if (!file) return null;
  const sha256 = await hashOf(move, file, size);
  return sha256 === null ? null : { sha256, modifiedAt: file.modifiedAt };
}

/** Returns the SHA-256 of a file and closes it. Null if it has another size. */
async function hashOf(
  { buffers, createHasher, signal }: Move,
  file: SourceFile,
  size: number,
): Promise<string | null> {
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
