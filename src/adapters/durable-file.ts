import { open, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Replaces a whole file, by default readable by its owner only. After this returns, a power failure
 * does not undo it.
 */
export async function replaceFile(file: string, text: string, mode = 0o600): Promise<void> {
  const temporary = `${file}.new`;
  await writeFile(temporary, text, { mode, flush: true });
  await rename(temporary, file);
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
