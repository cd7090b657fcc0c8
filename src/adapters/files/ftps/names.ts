import type { Names } from '../replace.ts';
import type { Connection } from './connection.ts';
import { isRefusal } from './errors.ts';
import { existing } from './stat.ts';

export function namesOn(connection: Connection): Names {
  return {
    exists: async (path) => (await existing(connection, path)) !== null,
    async rename(from, to) {
      await connection.request(`RNFR ${from}`);
      await connection.request(`RNTO ${to}`);
    },
    async remove(path) {
      await removeFile(connection, path);
    },
  };
}

/** False where there is none: the words of a refusal don't always tell. */
export async function removeFile(connection: Connection, path: string): Promise<boolean> {
  try {
    await connection.request(`DELE ${path}`);
    return true;
  } catch (error) {
    if (!isRefusal(error) || (await existing(connection, path))) throw error;
    return false;
  }
}
