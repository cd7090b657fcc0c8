/*
 * Reads a destination and compares it with what was read from the source.
 */
import type { UnixTime } from '../../../adapters/files/modification-time.ts';
import { type DestinationFile, FileError, type SourceFile } from '../../../adapters/files/port.ts';
import type { TransferErrorCode } from '../../../domain/transfers/errors.ts';
import { AttemptError, onSide } from '../failure.ts';
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
    if (file) refuseOther(whole, await hashOf(move, file, whole.size, 'size_mismatch'));
    return file !== null;
  });
}

/**
 * Compares the file under its name with the source. `committed` is the version that the commit made,
 * if the server names versions. Throws AttemptError `destination_changed` if another writer has
 * replaced or removed that one, `checksum_mismatch` if it is there with other bytes.
 */
export async function comparePublished(
  move: Move,
  whole: Committing,
  committed: string | undefined,
): Promise<void> {
  await verifying(async () => {
    const found = await readAt(move, whole.size);
    if (found?.sha256 === whole.sha256) return;
    if (found === null) throw changed('nothing is there any more');
    if (committed !== undefined && found.version !== committed)
      throw changed(`the version is ${found.version}, that of the commit was ${committed}`);
    refuseOther(whole, found.sha256);
  });
}

function changed(how: string): AttemptError {
  const message = `Another writer has changed the destination since the commit: ${how}`;
  return new AttemptError({ code: 'destination_changed', message, phase: 'verify' });
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

/** A file at the destination. */
interface Found {
  version: string | null;
  modifiedAt: UnixTime | null;
  /** Null if the file has another size. */
  sha256: string | null;
}

/**
 * Reads the file at the destination, of which `size` bytes are expected. Returns null if there is
 * none. Throws FileError `destination_changed` if another writer replaces it meanwhile.
 */
export async function readAt(move: Move, size: number): Promise<Found | null> {
  const { endpoint, path } = move.destination;
  const file = await endpoint.openSource(path, move.signal).catch((error: unknown) => {
    if (error instanceof FileError && error.code === 'source_not_found') return null;
    throw error;
  });
  if (!file) return null;
  const sha256 = await hashOf(move, file, size, 'destination_changed');
  return { version: file.identity.version, modifiedAt: file.modifiedAt, sha256 };
}

/**
 * Returns the SHA-256 of a file and closes it. Null if it has another size. `ifChanged` is the code
 * of the FileError if the file changes meanwhile: for the adapter, it is a source.
 */
async function hashOf(
  { buffers, createHasher, signal }: Move,
  file: SourceFile,
  size: number,
  ifChanged: TransferErrorCode,
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
  } catch (error) {
    if (!(error instanceof FileError) || error.code !== 'source_changed') throw error;
    throw new FileError(ifChanged, error.step, error.message, { cause: error });
  } finally {
    hasher.close();
    await file.close();
  }
}
