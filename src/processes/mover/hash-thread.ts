import { Worker } from 'node:worker_threads';
import type { FromHashHost, ToHashHost } from './hash-host.ts';
import type { Hasher } from './hasher.ts';

/** A thread that hashes what lies in shared memory, so that no byte waits for it on the main thread. */
export interface HashThread {
  create(): Hasher;
  close(): Promise<void>;
}

interface Pending {
  resolve(value: never): void;
  reject(error: Error): void;
}

export function createHashThread(): HashThread {
  const pending = new Map<number, Pending>();
  let worker: Worker | null = null;
  let lastCall = 0;
  let lastHasher = 0;

  /** An error in the thread fails what is under way: hashes that were begun there are lost with it. */
  function begin(): Worker {
    const begun = new Worker(new URL('./hash-host.ts', import.meta.url), { name: 'hash' });
    begun.on('message', ({ call, value }: FromHashHost) => {
      pending.get(call)?.resolve(value as never);
      pending.delete(call);
    });
    const end = (cause: Error) => {
      if (worker === begun) worker = null;
      for (const { reject } of pending.values()) reject(new Error(`The thread that hashes failed: ${cause.message}`, { cause }));
      pending.clear();
    };
    begun.on('error', (error) => end(error as Error));
    begun.on('exit', () => end(new Error('it has ended')));
    return begun;
  }

  function ask<T>(message: Omit<ToHashHost, 'call'>): Promise<T> {
    worker ??= begin();
    const call = ++lastCall;
    worker.postMessage({ ...message, call } satisfies ToHashHost);
    return new Promise((resolve, reject) => pending.set(call, { resolve, reject }));
  }

  return {
    create() {
      const hasher = ++lastHasher;
      return {
        update: (chunk) => ask<number>({ hasher, work: 'update', chunk }),
        check: (chunk) => ask<number>({ hasher, work: 'check', chunk }),
        digest: () => ask<string>({ hasher, work: 'digest', chunk: null }),
        close: () => void worker?.postMessage({ hasher, work: 'close', chunk: null, call: 0 } satisfies ToHashHost),
      };
    },
    async close() {
      await worker?.terminate();
    },
  };
}
