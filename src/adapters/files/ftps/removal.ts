import { FileError, type Leftovers } from '../port.ts';
import { removeParts } from '../settle.ts';
import { fileError } from './errors.ts';
import { namesOn, removeFile } from './names.ts';
import type { Pool } from './pool.ts';

/** Removes a file. Throws FileError `source_not_found` if it does not exist. */
export async function remove(pool: Pool, path: string, signal: AbortSignal): Promise<void> {
  try {
    const removed = await pool.use(signal, 'open', (connection) => removeFile(connection, path));
    if (!removed) throw new FileError('source_not_found', 'open', `${path} does not exist`);
  } catch (error) {
    throw fileError(error, 'open', path, 'destination');
  }
}

/**
 * Removes the leftovers of all claims of a transfer. If the server refuses to list the folder,
 * removes only what the resume point names.
 */
export async function removeLeftovers(
  pool: Pool,
  path: string,
  leftovers: Leftovers,
): Promise<void> {
  try {
    await pool.use(leftovers.signal, 'commit', (connection) =>
      removeParts(namesOn(connection), path, leftovers),
    );
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
