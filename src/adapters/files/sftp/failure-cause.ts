import { dirname } from 'node:path/posix';
import { FileError, type FileStep } from '../port.ts';
import { fileError, hasStatus, SSH_FX_FAILURE } from './errors.ts';
import type { Connection } from './session.ts';

/** What `statvfs@openssh.com` says of a file system. */
interface Disk {
  f_bavail: number;
  f_frsize: number;
  f_files: number;
  f_favail: number;
  f_flag: number;
}

/** SSH_FXE_STATVFS_ST_RDONLY (OpenSSH's PROTOCOL, section 4.3). */
const READ_ONLY = 1;

/**
 * Returns the cause of a request that the server answered with a bare failure: version 3 has no
 * better status for most causes. Null for any other error, or if the cause is unknown.
 */
export async function causeOf(
  connection: Connection,
  error: unknown,
  step: FileStep,
  path: string,
): Promise<FileError | null> {
  if (!hasStatus(error, SSH_FX_FAILURE)) return null;
  const said = fileError(error, step, path, 'destination');
  // The text of the server says the cause.
  if (said.code !== 'internal_error') return null;
  const because = (code: 'disk_full' | 'permission_denied', why: string) =>
    new FileError(code, step, `${path}: ${why}`, { cause: error });
  const disk = await diskOf(connection, dirname(path));
  if (disk && disk.f_flag & READ_ONLY)
    return because('permission_denied', "the server's file system is read-only");
  if (disk && disk.f_bavail * disk.f_frsize < 1 << 20)
    return because('disk_full', "no space left on the server's disk");
  if (disk && disk.f_files > 0 && disk.f_favail === 0)
    return because('disk_full', "the server's disk has no room for another file");
  // Not every server describes its disk, and that does not show the quota of a user.
  if (step !== 'transfer') return null;
  const guess = 'the disk, or the quota of the user, may be full';
  return new FileError('disk_full', step, `${said.message}: ${guess}`, { cause: error });
}

/** Returns null if the server does not say. */
async function diskOf(connection: Connection, folder: string): Promise<Disk | null> {
  if (!connection.extensions.has('statvfs@openssh.com')) return null;
  return connection
    .request<Disk>((sftp, done) => sftp.ext_openssh_statvfs(folder, done as never))
    .catch(() => null);
}
