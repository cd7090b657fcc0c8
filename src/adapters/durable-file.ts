import { open, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Replaces a file as a whole, readable by its owner alone. Once this has returned a power cut does not undo it. */
export async function replaceFile(file: string, text: string): Promise<void> {
  const half = `${file}.new`;
  await writeFile(half, text, { mode: 0o600, flush: true });
  await rename(half, file);
  await syncFolder(dirname(file));
}

/** Makes what was created, renamed or removed in a folder survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
