import { createReadStream, realpathSync } from 'node:fs';
import { opendir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Storage, StoredFile } from './storage.ts';

const CHUNK = 1 << 20;

/** Lists the files in and below a folder, including hidden ones. */
export function openFolder(path: string): Storage {
  const root = realpathSync(path);

  async function* walk(folder: string): AsyncGenerator<StoredFile> {
    for await (const entry of await opendir(join(root, folder))) {
      const below = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) yield* walk(below);
      else {
        const { size, mtimeMs, ctimeMs } = await stat(join(root, below));
        yield { path: below, size, changedAt: Math.max(mtimeMs, ctimeMs) };
      }
    }
  }

  return {
    location: `folder ${root}/`,
    list: () => walk(''),
    async read({ path: file, size }) {
      // Most files are small, and a stream costs more than their bytes.
      if (size <= CHUNK) return [await readFile(join(root, file))];
      return createReadStream(join(root, file), { highWaterMark: CHUNK });
    },
    uploads: async () => [],
    close: () => undefined,
  };
}
