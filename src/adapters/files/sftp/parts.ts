import type { Leftovers } from '../port.ts';
import { type Parts, removeParts } from '../settle.ts';
import { sha256Of } from '../sha256-of.ts';
import { fileError } from './errors.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';
import { openKnown } from './source.ts';

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
    const { signal } = leftovers;
    await pool.use(signal, 'commit', async (connection) => {
      const borrowed = { connection, release: () => {}, abandon: () => {} };
      const parts: Parts = {
        ...namesOn(connection),
        sha256Of: async (file, size) =>
          sha256Of(await openKnown(borrowed, file, { size, signal, step: 'commit' })),
      };
      await removeParts(parts, path, leftovers);
      if (!connection.usable) throw new Error('the connection was lost');
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
