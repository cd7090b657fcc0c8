import { type Names, STALLS_TO_COMMIT } from '../publish.ts';
import type { Connection } from './connection.ts';
import { isRefusal } from './errors.ts';
import { existing } from './stat.ts';

export function namesOn(connection: Connection): Names {
  return {
    typeOf: async (path) => (await existing(connection, path))?.type ?? null,
    async rename(from, to) {
      await connection.request(`RNFR ${from}`);
      await connection.request(`RNTO ${to}`, STALLS_TO_COMMIT * connection.stallMs);
    },
    renameOver: null,
    async remove(path) {
      await removeFile(connection, path);
    },
    isRefusal,
  };
}

/**
 * Removes a file. Returns false if it does not exist: it looks after a refusal, because the reply
 * does not always say so.
 */
export async function removeFile(connection: Connection, path: string): Promise<boolean> {
  try {
    await connection.request(`DELE ${path}`);
    return true;
  } catch (error) {
    if (!isRefusal(error) || (await existing(connection, path))) throw error;
    return false;
  }
}
