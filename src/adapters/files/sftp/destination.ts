import { basename, dirname, join } from 'node:path/posix';
import type { Stats } from 'ssh2';
import { abortable, abortError } from '../abort.ts';
import { type UnixTime, wholeSeconds } from '../modification-time.ts';
import { asidePath, type PartState, partPath } from '../part-name.ts';
import { type DestinationFile, FileError, type FileStep, type OpenDestination } from '../port.ts';
import { isAFolder, onPart, publish, settle } from '../publish.ts';
import type { Connection } from './connection.ts';
import { fileError, hasStatus, isRefusal, SSH_FX_FAILURE, SSH_FX_NO_SUCH_FILE } from './errors.ts';
import { causeOf } from './failure-cause.ts';
import { closeHandle, openHandle, openToRead } from './handles.ts';
import { CHUNK_SIZE } from './limits.ts';
import { namesOn } from './names.ts';
import { type Lease, type Pool, SMALL, WHOLE } from './pool.ts';
import { sourceFile } from './source.ts';
import { createWriteConnections } from './write-connections.ts';

/** Opens a new part file beside the destination, or takes over the part that a predecessor left. */
export async function openDestination(
  pool: Pool,
  path: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { signal, size } = options;
  const lease = await pool.acquire(size > CHUNK_SIZE ? WHOLE : SMALL, signal);
  try {
    return await abortable(openPart(pool, lease, path, options), signal, 'open');
  } catch (error) {
    const cause = signal.aborted ? null : await causeOf(lease.connection, error, 'open', path);
    if (signal.aborted) lease.abandon();
    else lease.release();
    throw cause ?? fileError(error, 'open', path, 'destination');
  }
}

async function openPart(
  pool: Pool,
  lease: Lease,
  path: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { connection } = lease;
  const { resume, overwrite, transferId, claimId, signal } = options;
  const part = partPath(path, transferId, claimId);
  if (resume === null && !overwrite && (await statOf(connection, path))) {
    throw new FileError(
      'destination_exists',
      'open',
      `${path} exists and the endpoint does not overwrite`,
    );
  }
  const opened = (handle: Buffer, resumedFrom: number) => {
    if (signal.aborted) {
      // No caller would close the file, and the connection stays open if other files use it.
      closeHandle(connection, handle).catch(() => {});
      throw abortError(signal, 'open');
    }
    return destinationFile(pool, lease, { path, part, handle, resumedFrom, options });
  };
  const theirs = resume && join(dirname(path), (resume.state as PartState).part);
  if (theirs) await settle(namesOn(connection), asidePath(theirs), path);
  const taken = theirs && (await takeOver(connection, theirs, part));
  if (resume && taken && taken.size >= resume.bytes) {
    return opened(await openHandle(connection, part, 'r+'), resume.bytes);
  }
  // A resumed part was checked when it began. Without `overwrite`, a taken name is rejected above.
  if (resume || !overwrite) return opened(await createPart(connection, part), 0);
  return opened(await createUnlessFolder(connection, part, path), 0);
}

/**
 * Creates the part, and throws FileError `destination_exists` if a folder has the name of the file.
 * A rename would replace a link to a folder, and fail at a folder after all bytes are sent. Both
 * requests are sent at once, so this takes no longer.
 */
async function createUnlessFolder(
  connection: Connection,
  part: string,
  path: string,
): Promise<Buffer> {
  const [created, isFolder] = await Promise.allSettled([
    createPart(connection, part),
    statOf(connection, path).then((stats) => stats?.isDirectory() ?? false),
  ]);
  if (created.status === 'rejected') throw created.reason;
  // A server that does not say has the last word when the part gets its name.
  if (isFolder.status === 'fulfilled' && isFolder.value) {
    await closeHandle(connection, created.value);
    await connection.request((sftp, done) => sftp.unlink(part, done));
    throw isAFolder(path, 'open');
  }
  return created.value;
}

export function statOf(connection: Connection, path: string): Promise<Stats | null> {
  return connection
    .request<Stats>((sftp, done) => sftp.stat(path, done))
    .catch((error) => {
      if (hasStatus(error, SSH_FX_NO_SUCH_FILE)) return null;
      throw error;
    });
}

/**
 * Renames the predecessor's part to ours, so that it can't be written under its old name. Returns
 * null if it is gone.
 */
async function takeOver(
  connection: Connection,
  theirs: string,
  ours: string,
): Promise<Stats | null> {
  if (theirs !== ours) {
    await connection
      .request((sftp, done) => sftp.rename(theirs, ours, done))
      .catch((error) => {
        if (!hasStatus(error, SSH_FX_NO_SUCH_FILE)) throw error;
      });
  }
  return statOf(connection, ours);
}

/**
 * Creates the part and any missing folders. A part with this name is our own, from an earlier try.
 */
async function createPart(connection: Connection, part: string): Promise<Buffer> {
  try {
    return await openHandle(connection, part, 'wx');
  } catch (error) {
    if (hasStatus(error, SSH_FX_NO_SUCH_FILE)) await makeFolder(connection, dirname(part));
    else if (await statOf(connection, part))
      await connection.request((sftp, done) => sftp.unlink(part, done));
    else throw error;
    return openHandle(connection, part, 'wx');
  }
}

export async function makeFolder(connection: Connection, folder: string): Promise<void> {
  const make = () => connection.request((sftp, done) => sftp.mkdir(folder, done));
  await make()
    .catch(async (error) => {
      if (!hasStatus(error, SSH_FX_NO_SUCH_FILE) || folder === '/') throw error;
      await makeFolder(connection, dirname(folder));
      await make();
    })
    .catch(async (error) => {
      // Another transfer may have created the folder meanwhile. SFTP version 3 has no status for
      // that.
      if (!hasStatus(error, SSH_FX_FAILURE)) throw error;
      const there = await statOf(connection, folder);
      if (there?.isDirectory()) return;
      if (there) throw new FileError('permission_denied', 'open', `${folder} is not a folder`);
      const cause = await causeOf(connection, error, 'open', folder);
      if (cause) throw cause;
    });
}

interface Opened {
  path: string;
  part: string;
  handle: Buffer;
  resumedFrom: number;
  options: OpenDestination;
}

function destinationFile(
  pool: Pool,
  lease: Lease,
  { path, part, handle, resumedFrom, options }: Opened,
): DestinationFile {
  const { connection } = lease;
  const { signal, size, overwrite, modifiedAt } = options;
  const names = namesOn(connection);
  const connections = createWriteConnections(
    pool,
    lease,
    handle,
    (other) => openHandle(other, part, 'r+'),
    options,
  );
  const writes = new Set<Promise<void>>();
  let handlesClosed: Promise<void> | null = null;
  let closing: Promise<void> | null = null;
  const abandon = () => connections.abandon();
  signal.addEventListener('abort', abandon, { once: true });

  async function fail(error: unknown, step: FileStep): Promise<FileError> {
    if (signal.aborted) return abortError(signal, step);
    const cause = await causeOf(connection, error, step, path);
    return cause ?? fileError(error, step, path, 'destination');
  }

  async function writeAll(offset: number, data: Buffer): Promise<void> {
    try {
      await connections.write(offset, data);
    } catch (error) {
      throw await fail(error, 'transfer');
    }
  }

  /** Sets the time of the part. Resolves with the server's refusal, or null. */
  async function setTime(time: UnixTime): Promise<string | null> {
    const seconds = wholeSeconds(time);
    if (seconds >= 2 ** 32) return 'SFTP has no times after 2106';
    const setting = connection.request((sftp, done) => sftp.utimes(part, seconds, seconds, done));
    return abortable(setting, signal, 'commit').then(
      () => null,
      (error) => {
        if (isRefusal(error)) return error.message;
        throw error;
      },
    );
  }

  function closeHandles(): Promise<void> {
    handlesClosed ??= connections.close();
    return handlesClosed;
  }

  async function end(): Promise<void> {
    signal.removeEventListener('abort', abandon);
    if (writes.size > 0) connections.abandon();
    closeHandles().catch(() => {});
    await Promise.allSettled(writes);
    connections.release();
  }

  return {
    parallelWrites: 4,
    chunkSize: CHUNK_SIZE,
    resumedFrom,
    write(offset, data) {
      const writing = writeAll(
        offset,
        Buffer.from(data.buffer, data.byteOffset, data.byteLength),
      ).finally(() => writes.delete(writing));
      writes.add(writing);
      return writing;
    },
    async openWritten() {
      try {
        const opening = openToRead(connection, part, signal, 'verify');
        const reading = await onPart(names, part, 'verify', opening);
        const identity = { size, version: null };
        const borrowed = { connection, release: () => {}, abandon };
        return sourceFile(borrowed, {
          path: part,
          handle: reading,
          identity,
          modifiedAt: null,
          signal,
        });
      } catch (error) {
        throw await fail(error, 'verify');
      }
    },
    resumePoint: async (bytes) => ({ bytes, state: { part: basename(part) } satisfies PartState }),
    async commit(whole) {
      try {
        // A server answers the requests for one handle in order, so they need not wait for each
        // other.
        const flushed = connection.extensions.has('fsync@openssh.com')
          ? connection.request((sftp, done) => sftp.ext_openssh_fsync(handle, done))
          : null;
        const measured = connection.request<Stats>((sftp, done) => sftp.fstat(handle, done));
        const [stats] = await abortable(
          Promise.all([measured, flushed, closeHandles()]),
          signal,
          'commit',
        );
        if (stats.size !== whole.size || size !== whole.size) {
          throw new FileError(
            'size_mismatch',
            'commit',
            `${path}: the server has ${stats.size} bytes, ${whole.size} bytes were sent`,
          );
        }
        const timeRefused = modifiedAt && (await setTime(modifiedAt));
        const { atomicReplace } = await abortable(
          publish(names, part, path, overwrite),
          signal,
          'commit',
        );
        const proof = { size: stats.size, destinationChecksum: 'none', atomicReplace } as const;
        return timeRefused ? { ...proof, timeRefused } : proof;
      } catch (error) {
        throw await fail(error, 'commit');
      }
    },
    close() {
      closing ??= end();
      return closing;
    },
  };
}
