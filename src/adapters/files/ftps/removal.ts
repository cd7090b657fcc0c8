import { FileError, type Leftovers } from '../port.ts';
import { type Parts, removeParts } from '../settle.ts';
import { sha256Of } from '../sha256-of.ts';
import { fileError } from './errors.ts';
import { namesOn, removeFile } from './names.ts';
import type { Pool } from './pool.ts';
import { openKnown } from './source.ts';

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
    const { signal } = leftovers;
    await pool.use(signal, 'commit', (connection) => {
      const borrowed = { connection, fresh: true, abandon: connection.abandon };
      const parts: Parts = {
        ...namesOn(connection),
        sha256Of: (file, size) => sha256Of(openKnown(borrowed, file, { size, signal })),
      };
      return removeParts(parts, path, leftovers);
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
