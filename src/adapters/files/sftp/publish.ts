import { FileError } from '../port.ts';
import { replace } from '../replace.ts';
import type { Connection } from './connection.ts';
import { isRefusal } from './errors.ts';
import { existing, namesOn } from './names.ts';

/**
 * Gives a finished part its name. `atomicReplace` is false where an older file had to be set aside first, so
 * that for a moment there was none. Throws FileError `destination_exists`, or what the server answered.
 */
export async function publish(connection: Connection, part: string, path: string, overwrite: boolean): Promise<{ atomicReplace: boolean }> {
  const exists = (why: string) => new FileError('destination_exists', 'commit', `${path} exists ${why}`);
  const names = namesOn(connection);
  const atomically = overwrite && connection.extensions.has('posix-rename@openssh.com');
  // A rename of version 3 must not replace a file, yet there are servers that do: so look first.
  if (!overwrite && (await names.exists(path))) throw exists('and the endpoint does not overwrite');
  try {
    if (atomically) await connection.request((sftp, done) => sftp.ext_openssh_rename(part, path, done));
    else await names.rename(part, path);
    return { atomicReplace: true };
  } catch (error) {
    const there = isRefusal(error) ? await existing(connection, path) : null;
    if (!there) throw error;
    if (!overwrite) throw exists('and the endpoint does not overwrite');
    if (there.isDirectory()) throw exists('and is a directory');
    if (atomically) throw error;
    await replace(names, part, path);
    return { atomicReplace: false };
  }
}
