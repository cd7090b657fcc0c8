import { basename, dirname, join } from 'node:path/posix';
import { addTo } from '../../../concurrency/shared-counter.ts';
import { SMALL_FILE_BYTES } from '../../../domain/small-file.ts';
import { abortable, abortError } from '../abort.ts';
import { asideOf, asidePath, type PartState, partPath, takenOverPath } from '../part-name.ts';
import {
  type CommitProof,
  type DestinationFile,
  FileError,
  type FileStep,
  type OpenDestination,
  type SourceFile,
} from '../port.ts';
import { isAFolder, isNoFile, onPart, partDenied, publish, STALLS_TO_COMMIT } from '../publish.ts';
import { settle } from '../settle.ts';
import type { Connection } from './connection.ts';
import { fileError, isDataRefusal, isRefusal, nullIfRefused, saysMissing } from './errors.ts';
import { namesOn, removeFile } from './names.ts';
import type { Lease, Pool } from './pool.ts';
import { openKnown } from './source.ts';
import {
  existing,
  isFolder,
  isSpecial,
  keepPermissions,
  refusalOf,
  setTime,
  sizeOf,
} from './stat.ts';
import { startUpload, type Upload } from './upload.ts';

const CHUNK_SIZE = 4 << 20;
const CLOSE_MS = 5_000;
/** Bytes that every file system allows in a name: encrypted ones allow the fewest. */
const ALLOWED_EVERYWHERE = 143;

/** Opens a new part file next to the destination, or takes over the one of an earlier claim. */
export async function openDestination(
  pool: Pool,
  path: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { signal } = options;
  try {
    return await pool.acquireFor(signal, (lease) =>
      abortable(openPart(lease, path, options), signal, 'open'),
    );
  } catch (error) {
    throw fileError(error, 'open', path, 'destination');
  }
}

async function openPart(
  lease: Lease,
  path: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { connection } = lease;
  const { resume, overwrite, transferId, claimId, opening, size } = options;
  const part = partPath(path, transferId, claimId, opening);
  if (resume === null && !overwrite && (await existing(connection, path))) {
    throw new FileError(
      'destination_exists',
      'open',
      `${path} exists and the endpoint does not overwrite`,
    );
  }
  if (resume) {
    const state = resume.state as PartState;
    const theirs = join(dirname(path), state.part);
    const ours = takenOverPath(path, theirs, options);
    const held = await takeOver(connection, theirs, ours);
    const aside = join(dirname(path), asideOf(state));
    await settle(namesOn(connection), aside, ours, path, options);
    const from = safelyHeld(held, resume.bytes, options);
    const taken = { path, part: ours, resumedFrom: from, options };
    if (from === size && from > 0) return destinationFile(lease, { ...taken, upload: null });
    const upload = from > 0 ? await resumeUpload(connection, ours, from, held) : null;
    if (upload) return destinationFile(lease, { ...taken, upload });
    if (ours !== part) await removeFile(connection, ours).catch(nullIfRefused);
  }
  // A resumed part was checked when it began.
  const upload = await createPart(connection, part, resume ? null : path);
  return destinationFile(lease, { path, part, upload, resumedFrom: 0, options });
}

/**
 * Renames the part of the earlier claim to ours, so that its mover can't write to it by its old
 * name. Resolves with its size; 0 if it is gone, or if the server refuses, as it may while the file
 * is still open.
 */
async function takeOver(connection: Connection, theirs: string, ours: string): Promise<number> {
  if (theirs !== ours && (await connection.request(`RNFR ${theirs}`).catch(nullIfRefused)))
    await connection.request(`RNTO ${ours}`).catch(nullIfRefused);
  return (await sizeOf(connection, ours).catch(nullIfRefused)) ?? 0;
}

/**
 * Returns the offset from which it is safe to resume. Data handed to the system may be lost on its
 * way. So if the server holds less than was claimed, only whole chunks count.
 */
function safelyHeld(
  held: number,
  claimed: number,
  { size, chunkSize = CHUNK_SIZE }: OpenDestination,
): number {
  if (held > size) return 0;
  return held >= claimed ? claimed : held - (held % Math.min(chunkSize, CHUNK_SIZE));
}

/** Resumes the upload; resolves with null if the server refuses. */
async function resumeUpload(
  connection: Connection,
  part: string,
  from: number,
  held: number,
): Promise<Upload | null> {
  if (connection.features.has('REST')) {
    return startUpload(connection, [`REST ${from}`, `STOR ${part}`]).catch(nullIfRefused);
  }
  return held === from ? startUpload(connection, [`APPE ${part}`]).catch(nullIfRefused) : null;
}

/**
 * Creates the part and missing folders. A part of this name is our own, from an earlier try or
 * taken over. A server may refuse to write over it.
 *
 * Throws FileError `destination_exists` if a folder has the name `path`, or a device, pipe or
 * socket, unless that is null. A rename would replace a link to a folder, or `/dev/null`, and fail
 * at a folder after all bytes are sent. Throws the server's refusal if it says that the name is too
 * long, as ProFTPD does. That of the part is shorter.
 */
async function createPart(
  connection: Connection,
  part: string,
  path: string | null,
): Promise<Upload> {
  const create = (objection?: () => Promise<Error | null>) =>
    startUpload(connection, [`STOR ${part}`], objection);
  const unlessTaken = async () => {
    if (path === null) return null;
    const refusal = await refusalOf(connection, `CWD ${path}`);
    // Some servers say yes to any name.
    if (refusal === null)
      return (await isFolder(connection, part)) ? null : isAFolder(path, 'open');
    const special = !saysMissing(refusal, path) && (await isSpecial(connection, path));
    return special ? isNoFile(path) : nameTooLong(connection, path);
  };
  try {
    return await create(unlessTaken);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    if (await existing(connection, part)) await removeFile(connection, part);
    else await makeFolder(connection, dirname(part));
    return await create(unlessTaken).catch((denied) => {
      const { code } = fileError(denied, 'open', part, 'destination');
      throw isRefusal(denied) && code === 'permission_denied' ? partDenied(part, denied) : denied;
    });
  }
}

/** Returns the server's refusal of a name; null if it does not say that the name is too long. */
async function nameTooLong(connection: Connection, path: string): Promise<FileError | null> {
  if (Buffer.byteLength(basename(path)) <= ALLOWED_EVERYWHERE) return null;
  const refusal = await refusalOf(connection, `SIZE ${path}`);
  if (!/name too long/i.test(refusal?.message ?? '')) return null;
  return fileError(refusal, 'open', path, 'destination');
}

export async function makeFolder(connection: Connection, folder: string): Promise<void> {
  if (folder === '/' || (await isFolder(connection, folder))) return;
  await makeFolder(connection, dirname(folder));
  await connection.request(`MKD ${folder}`).catch(async (error) => {
    // Another transfer may have created it meanwhile.
    if (!isRefusal(error) || !(await isFolder(connection, folder))) throw error;
  });
}

interface Opened {
  path: string;
  part: string;
  /** Null if all bytes are already sent. */
  upload: Upload | null;
  resumedFrom: number;
  options: OpenDestination;
}

function destinationFile(
  lease: Lease,
  { path, part, upload, resumedFrom, options }: Opened,
): DestinationFile {
  const { connection } = lease;
  const { signal, size, overwrite, modifiedAt, acknowledged, chunkSize = CHUNK_SIZE } = options;
  const names = namesOn(connection, size > CHUNK_SIZE ? STALLS_TO_COMMIT : 1);
  let position = resumedFrom;
  let unfinished = upload;
  let underWay: Promise<unknown> | null = null;
  let closing: Promise<void> | null = null;
  const abandon = () => lease.abandon();
  const aside = asidePath(path, options);
  signal.addEventListener('abort', abandon, { once: true });

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    const failure = fileError(error, step, path, 'destination');
    // The next attempt opens a new connection, which the server may accept.
    const mayPass = !lease.fresh && isDataRefusal(error);
    return mayPass
      ? new FileError('connection_failed', step, failure.message, { cause: error })
      : failure;
  }

  async function append(offset: number, data: Uint8Array): Promise<void> {
    try {
      if (closing !== null || !unfinished) throw new Error('the file was closed');
      if (offset !== position)
        throw new FileError(
          'internal_error',
          'transfer',
          `${path}: FTP writes in order, and ${position} comes next`,
        );
      await unfinished.write(data, (bytes) => addTo(acknowledged, bytes));
      position += data.length;
    } catch (error) {
      throw fail(error, 'transfer');
    }
  }

  async function finish(): Promise<void> {
    const upload = unfinished;
    unfinished = null;
    // A slow line must first send what the system still buffers: of a small file, little.
    await upload?.finish(size > SMALL_FILE_BYTES ? STALLS_TO_COMMIT : 1);
  }

  /** Ends the upload and resolves with the size of the part. */
  async function measure(step: FileStep): Promise<number> {
    await finish();
    return onPart(names, part, step, sizeOf(connection, part));
  }

  /** Reads on the connection that has written: the pool may have no other. */
  async function openWritten(): Promise<SourceFile> {
    try {
      await measure('verify');
    } catch (error) {
      throw fail(error, 'verify');
    }
    return openKnown({ connection, fresh: lease.fresh, abandon }, part, { size, signal });
  }

  async function showPart(): Promise<string> {
    try {
      await finish();
      return basename(part);
    } catch (error) {
      throw fail(error, 'verify');
    }
  }

  async function commit(sent: number): Promise<CommitProof> {
    try {
      const held = await measure('commit');
      if (held !== sent || size !== sent) {
        // Some servers continue a file wrongly. The next claim must not use any of it.
        await removeFile(connection, part).catch(nullIfRefused);
        throw new FileError(
          'size_mismatch',
          'commit',
          `${path}: the server holds ${held} bytes, sent were ${sent}`,
        );
      }
      const timeRefused = modifiedAt && (await setTime(connection, part, modifiedAt));
      if (overwrite) await keepPermissions(connection, part, path);
      const { atomicReplace } = await publish(names, { part, aside, path, overwrite });
      const proof = { size: held, destinationChecksum: 'none', atomicReplace } as const;
      return timeRefused ? { ...proof, timeRefused } : proof;
    } catch (error) {
      throw fail(error, 'commit');
    }
  }

  function track<Result>(work: Promise<Result>): Promise<Result> {
    const tracked = work.finally(() => {
      underWay = null;
    });
    underWay = tracked;
    return tracked;
  }

  async function end(): Promise<void> {
    signal.removeEventListener('abort', abandon);
    if (underWay !== null) lease.abandon();
    await underWay?.catch(() => {});
    if (connection.usable) await connection.inTime(finish(), CLOSE_MS).catch(() => lease.abandon());
    lease.release();
  }

  return {
    parallelWrites: 1,
    chunkSize: Math.min(chunkSize, CHUNK_SIZE),
    resumedFrom,
    write: (offset, data) => track(append(offset, data)),
    openWritten: () => track(openWritten()),
    showPart: () => track(showPart()),
    async resumePoint(bytes) {
      const state: PartState = { part: basename(part), aside: basename(aside) };
      return { bytes, state };
    },
    commit: (whole) => track(commit(whole.size)),
    close() {
      closing ??= end();
      return closing;
    },
  };
}
