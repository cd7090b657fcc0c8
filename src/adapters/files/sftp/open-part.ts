import { dirname } from 'node:path/posix';
import type { Stats } from 'ssh2';
import { FileError } from '../port.ts';
import { isAFolder, isNoFile, partDenied } from '../publish.ts';
import {
  hasStatus,
  isRefusal,
  nullIfRefused,
  rejectsName,
  SSH_FX_FAILURE,
  SSH_FX_NO_SUCH_FILE,
  SSH_FX_PERMISSION_DENIED,
} from './errors.ts';
import { causeOf } from './failure-cause.ts';
import { isSpecial, typeOf } from './file-type.ts';
import { closeHandle, openHandle } from './handles.ts';
import type { Pool } from './pool.ts';
import type { Connection } from './session.ts';

/** Lets the owner of a replaced file resume it. */
const OWNER_READS_AND_WRITES = 0o600;

/**
 * Creates the part with the permissions of the file that it replaces, if there is one. Throws
 * FileError `destination_exists` if a folder has the name of the file, or a device, pipe or socket,
 * or the server's error if the name is too long. A rename would replace a link to a folder, or
 * `/dev/null`, and fail at the others after all bytes are sent. The requests are sent at once, so
 * this takes no longer.
 */
export async function createInPlaceOf(
  connection: Connection,
  part: string,
  path: string,
): Promise<Buffer> {
  const [created, found] = await Promise.allSettled([
    createPart(connection, part),
    statOf(connection, path),
  ]);
  if (created.status === 'rejected') throw created.reason;
  // A server that does not say has the last word when the part gets its name.
  const replaced = found.status === 'fulfilled' ? found.value : null;
  const type = replaced && (await typeOf(connection, path, replaced));
  // The name of the part is shorter.
  const unusable = found.status === 'rejected' && rejectsName(found.reason, 'open', path);
  const special = replaced !== null && isSpecial(replaced);
  if (type === 'directory' || special || unusable) {
    await closeHandle(connection, created.value);
    await connection.request((sftp, done) => sftp.unlink(part, done));
    if (unusable) throw found.reason;
    throw special ? isNoFile(path) : isAFolder(path, 'open');
  }
  if (type === 'file' && replaced) keepPermissions(connection, created.value, replaced);
  return created.value;
}

/** Does not wait: the server answers in order, and one that refuses gives the file its own. */
function keepPermissions(connection: Connection, handle: Buffer, { mode }: Stats): void {
  if (mode === undefined) return;
  connection
    .request((sftp, done) => sftp.fchmod(handle, (mode & 0o777) | OWNER_READS_AND_WRITES, done))
    .catch(() => {});
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
 * its size; 0 if it is gone, or if the server refuses, as it may while the file is still open.
 */
export async function takeOver(
  connection: Connection,
  theirs: string,
  ours: string,
): Promise<number> {
  if (theirs !== ours)
    await connection.request((sftp, done) => sftp.rename(theirs, ours, done)).catch(nullIfRefused);
  return (await statOf(connection, ours).catch(nullIfRefused))?.size ?? 0;
}

/**
 * Opens a part to continue after its first `bytes` bytes. Returns null if the server cannot do
 * that. Some servers, often those that store objects, truncate each file that is opened for
 * writing, or write it from its start only. They would leave zeros in place of the first bytes, or
 * refuse each attempt. So the last of these bytes must be there, and is written once more.
 */
export async function openToContinue(
  connection: Connection,
  part: string,
  bytes: number,
): Promise<Buffer | null> {
  if (bytes === 0) return null;
  const handle = await openHandle(connection, part, 'r+').catch(nullIfRefused);
  if (handle === null) return null;
  try {
    const last = Buffer.alloc(1);
    const [{ size }, read] = await Promise.all([
      connection.request<Stats>((sftp, done) => sftp.fstat(handle, done)),
      connection.request<number>((sftp, done) => sftp.read(handle, last, 0, 1, bytes - 1, done)),
    ]);
    if (size >= bytes && read === 1) {
      await connection.request((sftp, done) => sftp.write(handle, last, 0, 1, bytes - 1, done));
      return handle;
    }
  } catch (error) {
    if (!isRefusal(error)) throw error;
  }
  await closeHandle(connection, handle).catch(nullIfRefused);
  return null;
}

/**
 * Creates the part and any missing folders. A part with this name is our own, from an earlier try.
 */
export async function createPart(connection: Connection, part: string): Promise<Buffer> {
  try {
    return await openHandle(connection, part, 'wx');
  } catch (error) {
    if (hasStatus(error, SSH_FX_NO_SUCH_FILE)) await makeFolder(connection, dirname(part));
    else if (await statOf(connection, part).catch(nullIfRefused))
      await connection.request((sftp, done) => sftp.unlink(part, done));
    else
      throw hasStatus(error, SSH_FX_PERMISSION_DENIED) ? partDenied(part, error as Error) : error;
    return openHandle(connection, part, 'wx');
  }
}

/**
 * Tries, once for each endpoint, whether a part keeps its bytes when it is opened a second time, as
 * further connections do. Returns the handle of the part: it is created again if it lost them.
 */
export async function tryReopening(
  pool: Pool,
  connection: Connection,
  part: string,
  handle: Buffer,
): Promise<Buffer> {
  try {
    const byte = Buffer.alloc(1, 1);
    await connection.request((sftp, done) => sftp.write(handle, byte, 0, 1, 0, done));
    const second = await openToContinue(connection, part, 1);
    pool.reopens = second !== null;
    if (second !== null) {
      closeHandle(connection, second).catch(() => {});
      return handle;
    }
  } catch (error) {
    closeHandle(connection, handle).catch(() => {});
    throw error;
  }
  await closeHandle(connection, handle).catch(nullIfRefused);
  return createPart(connection, part);
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
      if (there && (await typeOf(connection, folder, there)) === 'directory') return;
      if (there) throw new FileError('permission_denied', 'open', `${folder} is not a folder`);
      const cause = await causeOf(connection, error, 'open', folder);
      if (cause) throw cause;
      const link = connection.request<Stats>((sftp, done) => sftp.lstat(folder, done));
      if (await link.catch(nullIfRefused))
        throw new FileError('permission_denied', 'open', `${folder} is a link to nothing`);
    });
}
