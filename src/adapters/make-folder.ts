import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { giveToParentOwner } from './durable-file.ts';

/**
 * Creates a folder and its parents, for this user only. Root gives each to the owner of its parent:
 * the service may run as that user. Node's own way never ends where the system creates no folder
 * and says that the parent is missing, as in `/proc`.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeFolder(dirname(path));
    await makeOne(path);
  }
}

async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    // `/` may be a read-only file system.
    const exists = await stat(path).catch(() => null);
    if (!exists?.isDirectory()) throw error;
    return;
  }
  giveToParentOwner(path);
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
