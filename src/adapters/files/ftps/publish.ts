import { FileError } from '../port.ts';
import type { Connection } from './connection.ts';
import { isRefusal } from './errors.ts';
import { existing } from './stat.ts';

/**
 * Gives a finished part its name. `atomicReplace` is false where an older file had to be removed first, so
 * that for a moment there was none. Throws FileError `destination_exists`, or what the server answered.
 */
export async function publish(connection: Connection, part: string, path: string, overwrite: boolean): Promise<{ atomicReplace: boolean }> {
  const exists = (why: string) => new FileError('destination_exists', 'commit', `${path} exists ${why}`);
  const rename = async () => {
    await connection.request(`RNFR ${part}`);
    await connection.request(`RNTO ${path}`);
  };
  // Most servers replace an existing file: so look first.
  if (!overwrite && (await existing(connection, path))) throw exists('and the endpoint does not overwrite');
  try {
    await rename();
    return { atomicReplace: true };
  } catch (error) {
    const there = isRefusal(error) ? await existing(connection, path) : null;
    if (!there) throw error;
    if (!overwrite) throw exists('and the endpoint does not overwrite');
    if (there.type === 'directory') throw exists('and is a directory');
    await connection.request(`DELE ${path}`);
    await rename();
    return { atomicReplace: false };
  }
}
