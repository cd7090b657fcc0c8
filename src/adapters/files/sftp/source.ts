import type { Stats } from 'ssh2';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { abortable, abortError } from '../abort.ts';
import { asBuffer } from '../as-buffer.ts';
import { toUnixTime, type UnixTime } from '../modification-time.ts';
import { FileError, type FileIdentity, type FileStep, type SourceFile } from '../port.ts';
import { fileError, hasStatus, nullIfRefused, SSH_FX_NO_SUCH_FILE } from './errors.ts';
import { typeOf } from './file-type.ts';
import { closeHandle, openToRead } from './handles.ts';
import { CHUNK_SIZE, pieces } from './limits.ts';
import { type Lease, type Pool, SMALL, WHOLE } from './pool.ts';
import type { Connection } from './session.ts';

/** 64 reads of 255 KiB, if the server accepts that size: 16 MiB, the size of the receive window. */
const READS_IN_FLIGHT = 64;

/** Opens a file for reading. Its size and mtime, read before that, are its identity. */
export async function openSource(
  pool: Pool,
  path: string,
  signal: AbortSignal,
): Promise<SourceFile> {
  let lease = await pool.acquire(SMALL, signal);
  try {
    // A FIFO would block the server, and a directory can be opened but not read. So check the type
    // first.
    const stats = await abortable(statOf(lease.connection, path), signal, 'open');
    const type = await abortable(typeOf(lease.connection, path, stats), signal, 'open');
    if (type !== 'file') {
      const what = type === 'directory' ? 'a directory' : 'not a regular file';
      throw new FileError('source_not_found', 'open', `${path} is ${what}`);
    }
    if (stats.size > CHUNK_SIZE) {
      lease.release();
      lease = await pool.acquire(WHOLE, signal);
    }
    const { connection } = lease;
    return sourceFile(lease, {
      path,
      handle: await openToRead(connection, path, signal, 'open'),
      identity: identityOf(stats),
      modifiedAt: toUnixTime(stats.mtime),
      mayChange: true,
      signal,
    });
  } catch (error) {
    if (signal.aborted) lease.abandon();
    else lease.release();
    throw fileError(error, 'open', path);
  }
}

function statOf(connection: Connection, path: string): Promise<Stats> {
  return connection.request<Stats>((sftp, done) => sftp.stat(path, done));
}

/** A server may leave out each attribute. Throws `size_unknown` if that is the size. */
export function identityOf({ size, mtime }: Partial<Stats>): FileIdentity {
  if (size === undefined)
    throw new FileError('size_unknown', 'open', 'The server does not say the size of the file');
  return { size, version: mtime === undefined ? null : String(mtime) };
}

/**
 * Opens a file of a known size that no other program changes, on a connection that the caller has.
 * `lease` ends its use.
 */
export async function openKnown(
  lease: Lease,
  path: string,
  { size, signal, step }: { size: number; signal: AbortSignal; step: FileStep },
): Promise<SourceFile> {
  return sourceFile(lease, {
    path,
    handle: await openToRead(lease.connection, path, signal, step),
    identity: { size, version: null },
    modifiedAt: null,
    mayChange: false,
    signal,
  });
}

interface Opened {
  path: string;
  handle: Buffer;
  identity: FileIdentity;
  modifiedAt: UnixTime | null;
  /** False if only this mover writes the file. */
  mayChange: boolean;
  signal: AbortSignal;
}

/** Creates a source file on an open handle. */
export function sourceFile(
  lease: Lease,
  { path, handle, identity, modifiedAt, mayChange, signal }: Opened,
): SourceFile {
  const { connection } = lease;
  const requests = createSemaphore(READS_IN_FLIGHT);
  const reads = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;
  const abandon = () => lease.abandon();
  signal.addEventListener('abort', abandon, { once: true });

  function fail(error: unknown, step: FileStep): FileError {
    return signal.aborted ? abortError(signal, step) : fileError(error, step, path);
  }

  /**
   * Fills the target. A server may answer with fewer bytes than requested. Only an answer without a
   * byte is the end of the file. Resolves with the number of answers.
   */
  async function fill(offset: number, target: Buffer): Promise<number> {
    let answers = 0;
    for (let filled = 0; filled < target.length; answers++) {
      // The server may have reused the handle's number for another file since.
      if (closing !== null)
        throw new FileError('connection_failed', 'transfer', `${path} was closed`);
      if (signal.aborted) throw abortError(signal, 'transfer');
      const from = filled;
      const bytes = await connection.request<number>(
        (sftp, done) => sftp.read(handle, target, from, target.length - from, offset + from, done),
        { content: 0 },
      );
      if (bytes === 0) throw await endedAt(offset + from);
      filled += bytes;
    }
    return answers;
  }

  /** Returns whether the server sends a byte at an offset. */
  async function hasByteAt(offset: number): Promise<boolean> {
    const byte = Buffer.alloc(1);
    const reading = connection.request<number>(
      (sftp, done) => sftp.read(handle, byte, 0, 1, offset, done),
      { content: 0 },
    );
    return Boolean(await reading.catch(nullIfRefused));
  }

  /**
   * Returns the error of a file that has ended before its size: it was cut, or the server says a
   * size of its own, as Linux does of generated files in `/sys`.
   */
  async function endedAt(offset: number): Promise<FileError> {
    const { size, version } = identity;
    const found = mayChange ? await statOf(connection, path).catch(nullIfRefused) : null;
    // A file that was cut, and written again before the look, has the byte now.
    const isSame = found?.size === size && identityOf(found).version === version;
    return isSame && !(await hasByteAt(offset))
      ? sizeUnknown('transfer', `sends no more than ${offset}`)
      : new FileError('source_changed', 'transfer', `${path} ended at ${offset} of ${size} bytes`);
  }

  function sizeUnknown(step: FileStep, sends: string): FileError {
    const message = `${path}: the server reports ${identity.size} bytes and ${sends}`;
    return new FileError('size_unknown', step, message);
  }

  async function readAll(offset: number, target: Buffer): Promise<void> {
    try {
      await requests.forEach(pieces(target, connection.packet.read), ([start, piece]) =>
        fill(offset + start, piece),
      );
    } catch (error) {
      throw fail(error, 'transfer');
    }
  }

  /** Sends all requests at once. Asks for the identity again if a part was read after that. */
  async function readWhole(target: Buffer): Promise<FileIdentity> {
    const reading = Promise.all(
      pieces(target, connection.packet.read).map(([start, piece]) => fill(start, piece)),
    );
    const looking = look();
    looking.catch(() => {});
    const answers = await reading.catch((error) => {
      throw fail(error, 'transfer');
    });
    return answers.some((count) => count > 1) ? look() : looking;
  }

  async function look(): Promise<FileIdentity> {
    try {
      // Linux generates the files in `/proc` while they are read, and calls them empty.
      const generated = identity.size === 0 && hasByteAt(0);
      const asked = Promise.all([generated, statOf(connection, path)]);
      const [hasMore, stats] = await abortable(asked, signal, 'verify');
      const found = identityOf(stats);
      if (hasMore && found.size === 0) throw sizeUnknown('verify', 'sends more');
      return found;
    } catch (error) {
      if (hasStatus(error, SSH_FX_NO_SUCH_FILE))
        throw new FileError('source_changed', 'verify', `${path} is no longer there`);
      throw fail(error, 'verify');
    }
  }

  function tracked<T>(reading: Promise<T>): Promise<T> {
    const ended = reading.finally(() => reads.delete(ended));
    reads.add(ended);
    return ended;
  }

  /** Resolves when nothing writes to a caller's buffer any more. */
  async function end(): Promise<void> {
    signal.removeEventListener('abort', abandon);
    if (reads.size > 0) lease.abandon();
    await Promise.allSettled(reads);
    closeHandle(connection, handle).catch(() => {});
    lease.release();
  }

  return {
    identity,
    modifiedAt,
    parallelReads: 4,
    readAtOnce: false,
    read: (offset, target) => tracked(readAll(offset, asBuffer(target))),
    ...(mayChange &&
      connection.inOrder && {
        readWhole: (target: Uint8Array) => tracked(readWhole(asBuffer(target))),
      }),
    stat: look,
    close() {
      closing ??= end();
      return closing;
    },
  };
}
