import { createReadStream } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';

interface File {
  path: string;
  size: number;
}

/** The content of an object or a part, in files. */
export interface Body {
  readonly size: number;
  readonly files: readonly File[];
  /**
   * From `start` to `end`, inclusive. Continues to the end even if the body is removed meanwhile.
   */
  read(start: number, end: number): AsyncGenerator<Buffer, void, undefined>;
  remove(): Promise<void>;
}

export interface BodyWriter {
  write(chunk: Buffer): Promise<void>;
  finish(): Promise<Body>;
  discard(): Promise<void>;
}

const ZEROS = Buffer.alloc(1 << 20);
const CHUNK_BYTES = 256 << 10;

/** Stores a new body. Blocks of zeros become holes, so huge bodies of tests need no disk space. */
export async function writeBody(folder: string, name: string): Promise<BodyWriter> {
  const path = join(folder, name);
  const file: FileHandle = await open(path, 'wx');
  let size = 0;
  return {
    async write(chunk) {
      const hole = chunk.length <= ZEROS.length && chunk.equals(ZEROS.subarray(0, chunk.length));
      for (let at = 0; !hole && at < chunk.length; )
        at += (await file.write(chunk, at, chunk.length - at, size + at)).bytesWritten;
      size += chunk.length;
    },
    async finish() {
      await file.truncate(size);
      await file.close();
      return bodyOf([{ path, size }]);
    },
    async discard() {
      await file.close();
      await rm(path, { force: true });
    },
  };
}

/** Returns a body that consists of others, which must not be removed separately afterwards. */
export function joinBodies(parts: Body[]): Body {
  return bodyOf(parts.flatMap((part) => part.files));
}

function bodyOf(files: readonly File[]): Body {
  let readers = 0;
  let removed = false;
  const removeUnread = async () => {
    if (removed && readers === 0)
      await Promise.all(files.map(({ path }) => rm(path, { force: true })));
  };

  return {
    size: files.reduce((sum, { size }) => sum + size, 0),
    files,
    async *read(start, end) {
      readers++;
      try {
        let offset = 0;
        for (const { path, size } of files) {
          const range = {
            start: Math.max(0, start - offset),
            end: Math.min(size - 1, end - offset),
          };
          offset += size;
          if (range.start <= range.end)
            yield* createReadStream(path, { ...range, highWaterMark: CHUNK_BYTES });
        }
      } finally {
        readers--;
        await removeUnread();
      }
    },
    async remove() {
      removed = true;
      await removeUnread();
    },
  };
}
