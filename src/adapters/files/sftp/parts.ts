import { dirname } from 'node:path/posix';
import type { Leftovers } from '../port.ts';
import { removeParts } from '../publish.ts';
import { fileError } from './errors.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';

/**
 * Removes what all claims of a transfer left. If the folder can't be listed, removes only what the
 * resume point names.
 */
export async function removeLeftovers(
  pool: Pool,
  path: string,
  leftovers: Leftovers,
): Promise<void> {
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
