import type { Stats } from 'ssh2';
import type { Names } from '../names.ts';
import {
  hasStatus,
  isRefusal,
  nullIfRefused,
  SSH_FX_NO_SUCH_FILE,
  SSH_FX_PERMISSION_DENIED,
} from './errors.ts';
import { typeOf } from './file-type.ts';
import { namesIn } from './listing.ts';
import type { Connection } from './session.ts';

/** The folder does not exist, or the account may not list it. */
const NO_LISTING = [SSH_FX_NO_SUCH_FILE, SSH_FX_PERMISSION_DENIED];

/** `stalls` multiplies the time that a rename may take. */
export function namesOn(connection: Connection, stalls = 1): Names {
  /** Looks at a link itself, not at its target. */
  const lstat = (path: string) =>
    connection.request<Partial<Stats>>((sftp, done) => sftp.lstat(path, done)).catch(nullIfRefused);
  return {
    async typeOf(path) {
      const stats = await lstat(path);
      if (stats === null) return null;
      return (await typeOf(connection, path, stats)) === 'directory' ? 'directory' : 'file';
    },
    sizeOf: async (path) => (await lstat(path))?.size ?? null,
    async list(folder, marker, signal) {
      const isWanted = (name: string) => name.includes(marker);
      return namesIn(connection, folder, isWanted, signal).catch((error) => {
        if (NO_LISTING.some((status) => hasStatus(error, status))) return [];
        throw error;
      });
    },
    rename: (from, to) =>
      connection.request((sftp, done) => sftp.rename(from, to, done), { stalls }),
    renameOver: connection.extensions.has('posix-rename@openssh.com')
      ? (from, to) =>
          connection.request((sftp, done) => sftp.ext_openssh_rename(from, to, done), { stalls })
      : null,
    async remove(path) {
      try {
        await connection.request((sftp, done) => sftp.unlink(path, done));
      } catch (error) {
        if (!hasStatus(error, SSH_FX_NO_SUCH_FILE)) throw error;
      }
    },
    isRefusal,
  };
}
