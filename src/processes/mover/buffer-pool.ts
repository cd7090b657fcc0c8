import { SMALL_FILE_BYTES } from '../../domain/small-file.ts';

/** A buffer that holds one chunk of a file. */
export interface PooledBuffer {
  buffer: Uint8Array;
  release(): void;
  /** Takes the buffer out of the pool, which gets another one: it will be held for long. */
  keep(): void;
}

/**
 * The memory that all moves of a process share. A file without a buffer waits for one with `take`.
 * A file that has one gets more with `tryTake`, if buffers are free. So many files get one buffer
 * each, and a single file gets several.
 */
export interface BufferPool {
  /** Size of a buffer, in bytes. Callers ask for at most this much. */
  readonly bufferBytes: number;
  /**
   * Resolves when a buffer is free, or with a further one if slow files hold them all for long: a
   * file waits only while it has none, so each file adds one at most. Rejects with the signal's
   * reason if it aborts first.
   */
  take(bytes: number, signal: AbortSignal): Promise<PooledBuffer>;
  /** Returns a buffer if one is free and no caller waits. */
  tryTake(bytes: number): PooledBuffer | null;
}

/** How long a file waits for a buffer of the pool. */
const PATIENCE_MS = 10_000;

/** A small file gets memory of its own, so it does not wait for large ones. */
function ownMemory(bytes: number): PooledBuffer {
  const nothing = () => undefined;
  return {
    buffer: new Uint8Array(new SharedArrayBuffer(bytes)),
    release: nothing,
    keep: nothing,
  };
}

export function createBufferPool(count: number, bufferBytes: number): BufferPool {
  const idle: Uint8Array[] = [];
  const waiting = new Set<(buffer: Uint8Array) => void>();
  let allocated = 0;

  function freeBuffer(): Uint8Array | null {
    const buffer = idle.pop();
    if (buffer || allocated >= count) return buffer ?? null;
    allocated++;
    return allocate();
  }

  // Shared memory: the endpoint threads fill it, write from it and hash it.
  function allocate(): Uint8Array {
    return new Uint8Array(new SharedArrayBuffer(bufferBytes));
  }

  function pooled(whole: Uint8Array, bytes: number): PooledBuffer {
    let released = false;
    const giveBack = (free: () => Uint8Array) => {
      if (released) return;
      released = true;
      const [next] = waiting;
      if (next) next(free());
      else if (allocated > count) allocated--;
      else idle.push(free());
    };
    return {
      buffer: whole.subarray(0, bytes),
      release: () => giveBack(() => whole),
      keep: () => giveBack(allocate),
    };
  }

  return {
    bufferBytes,
    tryTake(bytes) {
      if (bytes <= SMALL_FILE_BYTES) return ownMemory(bytes);
      const whole = waiting.size === 0 ? freeBuffer() : null;
      return whole && pooled(whole, bytes);
    },
    take(bytes, signal) {
      signal.throwIfAborted();
      if (bytes <= SMALL_FILE_BYTES) return Promise.resolve(ownMemory(bytes));
      const whole = waiting.size === 0 ? freeBuffer() : null;
      if (whole) return Promise.resolve(pooled(whole, bytes));
      return new Promise((resolve, reject) => {
        const stopWaiting = () => {
          clearTimeout(timer);
          waiting.delete(give);
          signal.removeEventListener('abort', abort);
        };
        const abort = () => {
          stopWaiting();
          reject(signal.reason);
        };
        const give = (buffer: Uint8Array) => {
          stopWaiting();
          resolve(pooled(buffer, bytes));
        };
        const timer = setTimeout(() => {
          allocated++;
          give(allocate());
        }, PATIENCE_MS);
        waiting.add(give);
        signal.addEventListener('abort', abort, { once: true });
      });
    },
  };
}
