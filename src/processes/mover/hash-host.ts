import { createHash, type Hash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import { crc32 } from 'node:zlib';

export interface ToHashHost {
  call: number;
  hasher: number;
  work: 'update' | 'check' | 'digest' | 'close';
  /** In shared memory. */
  chunk: Uint8Array | null;
}

export interface FromHashHost {
  call: number;
  value: number | string;
}

/** Runs in a thread of its own: one SHA-256 for each hasher that is under way. */
const hashes = new Map<number, Hash>();

parentPort?.on('message', ({ call, hasher, work, chunk }: ToHashHost) => {
  const value = perform(hasher, work, chunk);
  if (value !== null) parentPort?.postMessage({ call, value } satisfies FromHashHost);
});

function perform(hasher: number, work: ToHashHost['work'], chunk: Uint8Array | null): number | string | null {
  const hash = hashes.get(hasher) ?? createHash('sha256');
  switch (work) {
    case 'update':
      hashes.set(hasher, hash.update(chunk as Uint8Array));
      return crc32(chunk as Uint8Array);
    case 'check':
      return crc32(chunk as Uint8Array);
    case 'digest':
      hashes.delete(hasher);
      return hash.digest('hex');
    case 'close':
      hashes.delete(hasher);
      return null;
  }
}
