import type { Stats } from 'ssh2';
import type { Names } from '../publish.ts';
import { hasStatus, isRefusal, SSH_FX_NO_SUCH_FILE } from './errors.ts';
import { typeOf } from './file-type.ts';
import type { Connection } from './session.ts';

/** `stalls` multiplies the time that a rename may take. */
export function namesOn(connection: Connection, stalls = 1): Names {
  return {
    /** Returns the type of a link itself, not of its target. */
    async typeOf(path) {
      try {
        const stats = await connection.request<Stats>((sftp, done) => sftp.lstat(path, done));
        const type = await typeOf(connection, path, stats);
        return type === 'directory' ? type : 'file';
      } catch (error) {
        if (isRefusal(error)) return null;
        throw error;
      }
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
