import type { Stats } from 'ssh2';
import type { Names } from '../replace.ts';
import type { Connection } from './connection.ts';
import { hasStatus, isRefusal, SSH_FX_NO_SUCH_FILE } from './errors.ts';

export function namesOn(connection: Connection): Names {
  return {
    exists: async (path) => (await existing(connection, path)) !== null,
    rename: (from, to) => connection.request((sftp, done) => sftp.rename(from, to, done)),
    async remove(path) {
      try {
        await connection.request((sftp, done) => sftp.unlink(path, done));
      } catch (error) {
        if (!hasStatus(error, SSH_FX_NO_SUCH_FILE)) throw error;
      }
    },
  };
}

/** What stands under a path, a link for itself; null where the server shows nothing. */
export async function existing(connection: Connection, path: string): Promise<Stats | null> {
  try {
    return await connection.request<Stats>((sftp, done) => sftp.lstat(path, done));
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
}
