import { basename, dirname, join } from 'node:path/posix';
import type { Leftovers } from '../port.ts';
import type { Connection } from './connection.ts';
import { fileError, hasStatus, SSH_FX_NO_SUCH_FILE } from './errors.ts';
import type { Pool } from './pool.ts';

const MAX_NAME_BYTES = 150;

/** What stands in a resume point: the name of the part file, in the folder of the destination. */
export interface ResumeState {
  part: string;
}

/** Where a claim writes before the commit: hidden, beside the destination, unlike for every claim. */
export function partPath(path: string, transferId: string, claimId: string): string {
  return join(dirname(path), `${prefix(path, transferId)}${claimId}.part`);
}

function prefix(path: string, transferId: string): string {
  return `.${cut(basename(path))}.${transferId}.`;
}

/** At most 150 bytes of a name, not cut within a character: ids and dots come to it, and 255 is the common limit. */
function cut(name: string): string {
  let bytes = 0;
  let kept = '';
  for (const character of name) {
    bytes += Buffer.byteLength(character);
    if (bytes > MAX_NAME_BYTES) break;
    kept += character;
  }
  return kept;
}

/** Removes the parts of all claims of a transfer. Where the folder may not be listed, the one that was saved. */
export async function removeLeftovers(pool: Pool, path: string, { transferId, resume, signal }: Leftovers): Promise<void> {
  const folder = dirname(path);
  try {
    await pool.use(signal, 'commit', async (connection) => {
      const listed = await connection.list(folder).catch(() => []);
      const names = new Set(listed.map(({ name }) => name));
      if (resume) names.add((resume.state as ResumeState).part);
      for (const name of names) {
        if (name.startsWith(prefix(path, transferId)) && name.endsWith('.part')) await remove(connection, join(folder, name));
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
