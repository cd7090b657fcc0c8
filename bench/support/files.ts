import { createHash, randomFillSync } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const CHUNK_BYTES = 8 << 20;
/** A stream allocates this much for each file, however small the file is. */
const READ_BYTES = 256 << 10;

/**
 * Creates files of random bytes and returns their names, in order. The page cache still has them.
 */
export async function makeFiles(folder: string, count: number, bytes: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, i) => `file-${String(i).padStart(5, '0')}.bin`);
  const chunk = Buffer.alloc(Math.min(bytes, CHUNK_BYTES));
  for (const name of names) {
    await using file = await open(join(folder, name), 'w');
    for (let left = bytes; left > 0; left -= chunk.length)
      await file.write(randomFillSync(chunk), 0, Math.min(left, chunk.length));
  }
  return names;
}

/** Throws if two folders do not hold the same files, byte by byte. */
export async function checkSame(folder: string, other: string): Promise<void> {
  const [names, copies] = await Promise.all([readdir(folder), readdir(other)]);
  if (names.toSorted().join() !== copies.toSorted().join())
    throw new Error(`${other} holds ${copies.length} files, ${folder} ${names.length}`);
  for (const name of names) {
    const [ours, copied] = await Promise.all([
      sha256(join(folder, name)),
      sha256(join(other, name)),
    ]);
    if (ours !== copied) throw new Error(`${join(other, name)} differs from ${join(folder, name)}`);
  }
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: READ_BYTES }), hash);
  return hash.digest('hex');
}
