import { dirname } from 'node:path/posix';
import type { Leftovers } from '../port.ts';
import { removeParts } from '../publish.ts';
import { fileError } from './errors.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';

/** Removes what all claims of a transfer left. Where the folder may not be listed, what was saved of them. */
export async function removeLeftovers(pool: Pool, path: string, leftovers: Leftovers): Promise<void> {
  try {
    await pool.use(leftovers.signal, 'commit', async (connection) => {
      const listed = await connection.list(dirname(path)).catch(() => []);
      const names = listed.map(({ name }) => name);
      await removeParts(namesOn(connection), names, path, leftovers);
      if (!connection.usable) throw new Error('the connection was lost');
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
