import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeAbandoned, writeWhole } from '../durable-file.ts';
import { type CheckpointSink, checkpointFile, newestFile, SinkRefuses } from './port.ts';

/**
 * Creates a sink that writes each checkpoint to a file of its own, for everybody to read. It does
 * not create the folder: a disk that is not mounted must not be replaced by an empty folder.
 */
export function createFolderSink(folder: string): CheckpointSink {
  const fileOf = (size: number) => join(folder, checkpointFile(size));

  /** Returns null if there is no such file. Throws if there is no folder. */
  async function read(size: number): Promise<string | null> {
    await stat(folder);
    return readFile(fileOf(size), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw error;
    });
  }

  return {
    async newest() {
      await removeAbandoned(folder, (name) => newestFile([name]) !== null);
      const file = newestFile(await readdir(folder));
      return file && readFile(join(folder, file), 'utf8');
    },
    has: async (size) => (await read(size)) !== null,
    async keep({ size, note }) {
      const known = await read(size);
      // The folder may have half a million files: only `newest` reads it.
      if (known === null) await writeWhole(fileOf(size), note, 0o644);
      else if (known !== note)
        throw new SinkRefuses(`${fileOf(size)} is another checkpoint of this size`);
    },
  };
}
