import type { Names } from '../names.ts';
import type { Connection } from './connection.ts';
import { isRefusal, nullIfRefused } from './errors.ts';
import { entriesOf } from './listing.ts';
import { existing } from './stat.ts';

/** `stalls` multiplies the time that a rename may take. */
export function namesOn(connection: Connection, stalls = 1): Names {
  return {
    typeOf: async (path) => (await existing(connection, path))?.type ?? null,
    sizeOf: async (path) => (await existing(connection, path))?.size ?? null,
    async list(folder, marker) {
      const entries = await entriesOf(connection, folder, marker).catch(nullIfRefused);
      return entries?.map(({ name }) => name) ?? [];
    },
    async rename(from, to) {
      await connection.request(`RNFR ${from}`);
      await connection.request(`RNTO ${to}`, stalls);
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
