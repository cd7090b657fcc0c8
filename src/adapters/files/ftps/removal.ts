import { dirname, join } from 'node:path/posix';
import { isPartOf, type PartState } from '../part-name.ts';
import { FileError, type Leftovers } from '../port.ts';
import type { Connection } from './connection.ts';
import { fileError, isRefusal } from './errors.ts';
import { entriesOf } from './listing.ts';
import type { Pool } from './pool.ts';
import { existing, nullIfRefused } from './stat.ts';

/** Throws FileError `source_not_found` where there is no such file. */
export async function remove(pool: Pool, path: string, signal: AbortSignal): Promise<void> {
  try {
    const removed = await pool.use(signal, 'open', (connection) => removeFile(connection, path));
    if (!removed) throw new FileError('source_not_found', 'open', `${path} does not exist`);
  } catch (error) {
    throw fileError(error, 'open', path, 'destination');
  }
}

/** Removes the parts of all claims of a transfer. Where the folder may not be listed, the one that was saved. */
export async function removeLeftovers(pool: Pool, path: string, { transferId, resume, signal }: Leftovers): Promise<void> {
  const folder = dirname(path);
  try {
    await pool.use(signal, 'commit', async (connection) => {
      const listed = (await entriesOf(connection, folder).catch(nullIfRefused)) ?? [];
      const names = new Set(listed.map(({ name }) => name));
      if (resume) names.add((resume.state as PartState).part);
      for (const name of names) {
        if (isPartOf(name, path, transferId)) await removeFile(connection, join(folder, name));
      }
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}

/** False where there is none: the words of a refusal don't always tell. */
async function removeFile(connection: Connection, path: string): Promise<boolean> {
  try {
    await connection.request(`DELE ${path}`);
    return true;
  } catch (error) {
    if (!isRefusal(error) || (await existing(connection, path))) throw error;
    return false;
  }
}
