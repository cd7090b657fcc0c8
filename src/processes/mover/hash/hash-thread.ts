import { createThread } from '../../../concurrency/thread.ts';
import type { HashFunctions } from './hash-functions.ts';
import type { Hasher } from './hasher.ts';

/** A thread that hashes chunks in shared memory, so hashing does not block the main thread. */
export interface HashThread {
  create(): Hasher;
  close(): Promise<void>;
}

export function createHashThread(): HashThread {
  const thread = createThread<HashFunctions>(new URL('./hash-functions.ts', import.meta.url), {
    name: 'hash',
    // Each chunk is hashed while the next one is read.
    gather: false,
    lost: (cause) => new Error(`The hash thread failed: ${cause.message}`, { cause }),
    revive: (error) => error as Error,
  });
  let lastHasher = 0;

  return {
    create() {
      const hasher = ++lastHasher;
      // A hash that the end of a run has lost must not begin again in the next.
      const run = thread.run();
      return {
        update: (chunk) => run.call('update', [hasher, chunk]),
        rewind: (bytes) => run.call('rewind', [hasher, bytes]),
        digest: () => run.call('digest', [hasher]),
        close: () => run.notify('close', [hasher]),
      };
    },
    close: thread.close,
  };
}
