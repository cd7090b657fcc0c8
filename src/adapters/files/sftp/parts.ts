import type { Leftovers } from '../port.ts';
import { removeParts } from '../settle.ts';
import { fileError } from './errors.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';

/**
 * Removes what all claims of a transfer left. If the account may not list the folder, removes only
 * what the resume point names. Throws FileError if the listing fails otherwise.
 */
export async function removeLeftovers(
  pool: Pool,
  path: string,
  leftovers: Leftovers,
): Promise<void> {
  try {
    await pool.use(leftovers.signal, 'commit', async (connection) => {
      await removeParts(namesOn(connection), path, leftovers);
      if (!connection.usable) throw new Error('the connection was lost');
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
