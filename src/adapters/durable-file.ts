import { link, open, rename, unlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Replaces a whole file, by default readable by its owner only. After this returns, a power failure
 * does not undo it. Leaves nothing behind if it fails.
 */
export async function replaceFile(file: string, text: string, mode = 0o600): Promise<void> {
  const temporary = `${file}.new`;
  try {
    await writeFile(temporary, text, { mode, flush: true });
    await rename(temporary, file);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  await syncFolder(dirname(file));
}

/**
 * Writes a new file, readable by its owner only. It has its name when all of it is on disk. Leaves
 * nothing behind if it fails. Throws Error if there is a file of that name.
 */
export async function writeNewFile(file: string, pieces: AsyncIterable<string>): Promise<void> {
  const temporary = `${file}.new`;
  try {
    await writeFile(temporary, pieces, { mode: 0o600, flush: true });
    // A link never replaces a file.
    await link(temporary, file);
  } finally {
    await unlink(temporary).catch(() => undefined);
  }
  await syncFolder(dirname(file));
}

/** Makes files that were created, renamed or removed in a folder survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
