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
  /** Resolves when a buffer is free. Rejects with the signal's reason if it aborts first. */
  take(bytes: number, signal: AbortSignal): Promise<PooledBuffer>;
  /** Returns a buffer if one is free and no caller waits. */
  tryTake(bytes: number): PooledBuffer | null;
}

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
    if (buffer || allocated === count) return buffer ?? null;
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
      if (!next) return void idle.push(free());
      waiting.delete(next);
      next(free());
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
        const abort = () => {
          waiting.delete(give);
          reject(signal.reason);
        };
        const give = (buffer: Uint8Array) => {
          signal.removeEventListener('abort', abort);
          resolve(pooled(buffer, bytes));
        };
        waiting.add(give);
        signal.addEventListener('abort', abort, { once: true });
      });
    },
  };
}
