import type { Leftovers } from '../port.ts';
import { removeParts } from '../publish.ts';
import { fileError, hasStatus, SSH_FX_NO_SUCH_FILE, SSH_FX_PERMISSION_DENIED } from './errors.ts';
import { namesIn } from './listing.ts';
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
  const { signal } = leftovers;
  try {
    await pool.use(signal, 'commit', async (connection) => {
      await removeParts(namesOn(connection), path, leftovers, (folder, isWanted) =>
        namesIn(connection, folder, isWanted, signal).catch(noneIfRefused),
      );
      if (!connection.usable) throw new Error('the connection was lost');
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}

function noneIfRefused(error: unknown): string[] {
  if (REFUSED.some((status) => hasStatus(error, status))) return [];
  throw error;
}
