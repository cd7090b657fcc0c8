import { dirname } from 'node:path/posix';
import type { Leftovers } from '../port.ts';
import { removeParts } from '../publish.ts';
import { fileError, hasStatus, SSH_FX_NO_SUCH_FILE, SSH_FX_PERMISSION_DENIED } from './errors.ts';
import { list } from './listing.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';

/** The folder does not exist, or the account may not list it. */
const REFUSED = [SSH_FX_NO_SUCH_FILE, SSH_FX_PERMISSION_DENIED];

/**
 * Removes what all claims of a transfer left. If the server refuses to list the folder, removes
 * only what the resume point names. Throws FileError if the listing fails otherwise.
 */
export async function removeLeftovers(
  pool: Pool,
  path: string,
  leftovers: Leftovers,
): Promise<void> {
  try {
    await pool.use(leftovers.signal, 'commit', async (connection) => {
      let failure: unknown = null;
      const listed = await list(connection, dirname(path)).catch((error: unknown) => {
        if (!REFUSED.some((status) => hasStatus(error, status))) failure = error;
        return [];
      });
      const names = listed.map(({ name }) => name);
      await removeParts(namesOn(connection), names, path, leftovers);
      if (failure !== null) throw failure;
      if (!connection.usable) throw new Error('the connection was lost');
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
