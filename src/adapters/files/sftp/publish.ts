import type { Stats } from 'ssh2';
import { FileError } from '../port.ts';
import type { Connection } from './connection.ts';

/**
 * Gives a finished part its name. `atomicReplace` is false where an older file had to be removed first, so
 * that for a moment there was none. Throws FileError `destination_exists`, or what the server answered.
 */
export async function publish(connection: Connection, part: string, path: string, overwrite: boolean): Promise<{ atomicReplace: boolean }> {
  const rename = () => connection.request((sftp, done) => sftp.rename(part, path, done));
  if (overwrite && connection.extensions.has('posix-rename@openssh.com')) {
    await connection.request((sftp, done) => sftp.ext_openssh_rename(part, path, done)).catch((error) => explain(error));
    return { atomicReplace: true };
  }
  // A rename of version 3 must not replace a file, yet there are servers that do: so look first.
  if (!overwrite && (await existing())) throw exists('and the endpoint does not overwrite');
  try {
    await rename();
    return { atomicReplace: true };
  } catch (error) {
    if (!(await existing())) throw error;
    if (!overwrite) throw exists('and the endpoint does not overwrite');
    await connection.request((sftp, done) => sftp.unlink(path, done)).catch((failure) => explain(failure));
    await rename();
    return { atomicReplace: false };
  }

  function existing(): Promise<Stats | null> {
    return connection.request<Stats>((sftp, done) => sftp.lstat(path, done)).catch(() => null);
  }

  function exists(why: string): FileError {
    return new FileError('destination_exists', 'commit', `${path} exists ${why}`);
  }

  async function explain(error: unknown): Promise<never> {
    throw (await existing())?.isDirectory() ? exists('and is a directory') : error;
  }
}
