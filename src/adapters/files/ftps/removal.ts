import { dirname } from 'node:path/posix';
import { FileError, type Leftovers } from '../port.ts';
import { removeParts } from '../publish.ts';
import { fileError } from './errors.ts';
import { entriesOf } from './listing.ts';
import { namesOn, removeFile } from './names.ts';
import type { Pool } from './pool.ts';
import { nullIfRefused } from './stat.ts';

/** Throws FileError `source_not_found` where there is no such file. */
export async function remove(pool: Pool, path: string, signal: AbortSignal): Promise<void> {
  try {
    const removed = await pool.use(signal, 'open', (connection) => removeFile(connection, path));
    if (!removed) throw new FileError('source_not_found', 'open', `${path} does not exist`);
  } catch (error) {
    throw fileError(error, 'open', path, 'destination');
  }
}

/** Removes what all claims of a transfer left. Where the folder may not be listed, what was saved of them. */
export async function removeLeftovers(pool: Pool, path: string, leftovers: Leftovers): Promise<void> {
  try {
    await pool.use(leftovers.signal, 'commit', async (connection) => {
      const listed = (await entriesOf(connection, dirname(path)).catch(nullIfRefused)) ?? [];
      const names = listed.map(({ name }) => name);
      await removeParts(namesOn(connection), names, path, leftovers);
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}
