/*
 * The module of the hash thread. It holds one SHA-256 for each open hasher.
 */
import { createHash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { answerCalls } from '../../concurrency/thread.ts';

/** `hasher` numbers an open hasher. Chunks are in shared memory. See `Hasher`. */
export type HashFunctions = {
  update(hasher: number, chunk: Uint8Array): number;
  check(chunk: Uint8Array): number;
  digest(hasher: number): string;
  close(hasher: number): void;
};

const hashes = new Map<number, Hash>();
const hashOf = (hasher: number) => hashes.get(hasher) ?? createHash('sha256');

answerCalls<HashFunctions>(
  {
    update(_, hasher, chunk) {
      hashes.set(hasher, hashOf(hasher).update(chunk));
      return crc32(chunk);
    },
    check: (_, chunk) => crc32(chunk),
    digest(_, hasher) {
      const hash = hashOf(hasher);
      hashes.delete(hasher);
      return hash.digest('hex');
    },
    close: (_, hasher) => void hashes.delete(hasher),
  },
  { gather: false, describe: (error) => error },
);
