/*
 * The module of the hash thread. It holds one SHA-256 for each open hasher.
 */
import { answerCalls } from '../../../concurrency/thread.ts';
import { createRunningHash, type RunningHash } from './running-hash.ts';

/** `hasher` numbers an open hasher. Chunks are in shared memory. See `RunningHash`. */
export type HashFunctions = {
  update(hasher: number, chunk: Uint8Array): number;
  rewind(hasher: number, bytes: number): number;
  digest(hasher: number): string;
  close(hasher: number): void;
};

const hashes = new Map<number, RunningHash>();

function hashOf(hasher: number): RunningHash {
  const hash = hashes.get(hasher) ?? createRunningHash();
  hashes.set(hasher, hash);
  return hash;
}

answerCalls<HashFunctions>(
  {
    update: (_, hasher, chunk) => hashOf(hasher).update(chunk),
    rewind: (_, hasher, bytes) => hashOf(hasher).rewind(bytes),
    digest: (_, hasher) => hashOf(hasher).digest(),
    close: (_, hasher) => void hashes.delete(hasher),
  },
  { gather: false, describe: (error) => error },
);
