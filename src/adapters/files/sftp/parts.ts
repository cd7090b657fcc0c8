import { dirname, join } from 'node:path/posix';
import { isPartOf, type PartState } from '../part-name.ts';
import type { Leftovers } from '../port.ts';
import type { Connection } from './connection.ts';
import { fileError, hasStatus, SSH_FX_NO_SUCH_FILE } from './errors.ts';
import type { Pool } from './pool.ts';

/** Removes the parts of all claims of a transfer. Where the folder may not be listed, the one that was saved. */
export async function removeLeftovers(pool: Pool, path: string, { transferId, resume, signal }: Leftovers): Promise<void> {
  const folder = dirname(path);
  try {
    await pool.use(signal, 'commit', async (connection) => {
      const listed = await connection.list(folder).catch(() => []);
      const names = new Set(listed.map(({ name }) => name));
      if (resume) names.add((resume.state as PartState).part);
      for (const name of names) {
        if (isPartOf(name, path, transferId)) await remove(connection, join(folder, name));
      }
      if (!connection.usable) throw new Error('the connection was lost');
    });
  } catch (error) {
    throw fileError(error, 'commit', path, 'destination');
  }
}

async function remove(connection: Connection, path: string): Promise<void> {
  try {
    await connection.request((sftp, done) => sftp.unlink(path, done));
  } catch (error) {
    if (!hasStatus(error, SSH_FX_NO_SUCH_FILE)) throw error;
  }
}
