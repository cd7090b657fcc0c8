import { SMALL_FILE_BYTES } from '../../domain/small-file.ts';

/** A buffer that holds one chunk of a file. */
export interface PooledBuffer {
  buffer: Uint8Array;
  release(): void;
  /** Stops counting the buffer as one of the pool, which can lend another: it is held for long. */
  keep(): void;
}

/**
 * The pool as one file sees it: memory that all moves of a process share. A file without a buffer
 * waits for one with `take`. A file that has one gets more with `tryTake`, if buffers are free. So
 * many files get one buffer each, and a single file gets several.
 */
export interface FileBuffers {
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

/**
 * The pool never drops a buffer. The memory is as much as was in use at one time: `count` buffers,
 * and what slow files and files with a limit hold beyond these.
 */
export interface BufferPool extends FileBuffers {
  /** Returns a buffer beyond those that files share, for one that holds it for long. */
  takeFurther(bytes: number): PooledBuffer;
}

/** How long a file waits for a buffer of the pool. */
const PATIENCE_MS = 10_000;

export function createBufferPool(count: number, bufferBytes: number): BufferPool {
  const large = createReusedMemory(bufferBytes);
  // A small file does not wait for large ones.
  const small = createReusedMemory(SMALL_FILE_BYTES);
  const waiting = new Set<() => void>();
  let inUse = 0;

  function isFree(): boolean {
    return inUse < count || large.hasIdle();
  }

  function wakeNext(): void {
    const [next] = waiting;
    if (isFree()) next?.();
  }

  function ofSmallFile(bytes: number): PooledBuffer {
    return { ...small.lend(bytes), keep: () => undefined };
  }

  function pooled(bytes: number, { further = false } = {}): PooledBuffer {
    const { buffer, release } = large.lend(bytes);
    let counts = !further;
    if (counts) inUse++;
    const leave = () => {
      if (counts) inUse--;
      counts = false;
      wakeNext();
    };
    return {
      buffer,
      release() {
        release();
        leave();
      },
      keep: leave,
    };
  }

  return {
    bufferBytes,
    tryTake(bytes) {
      if (bytes <= SMALL_FILE_BYTES) return ofSmallFile(bytes);
      return waiting.size === 0 && inUse < count ? pooled(bytes) : null;
    },
    takeFurther: (bytes) =>
      bytes <= SMALL_FILE_BYTES ? ofSmallFile(bytes) : pooled(bytes, { further: true }),
    take(bytes, signal) {
      signal.throwIfAborted();
      if (bytes <= SMALL_FILE_BYTES) return Promise.resolve(ofSmallFile(bytes));
      if (waiting.size === 0 && isFree()) return Promise.resolve(pooled(bytes));
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
        const give = () => {
          stopWaiting();
          resolve(pooled(bytes));
        };
        const timer = setTimeout(give, PATIENCE_MS);
        waiting.add(give);
        signal.addEventListener('abort', abort, { once: true });
      });
    },
  };
}

/**
 * Lends shared memory: the endpoint threads fill it, write from it and hash it. It is used again,
 * because V8 does not count such memory. It frees a part of it only when each thread that has seen
 * that part has collected garbage, and a quiet thread does not do that for hours.
 */
function createReusedMemory(bufferBytes: number) {
  const idle: Uint8Array[] = [];
  return {
    hasIdle: () => idle.length > 0,
    lend(bytes: number) {
      const whole = idle.pop() ?? new Uint8Array(new SharedArrayBuffer(bufferBytes));
      let released = false;
      const release = () => {
        if (!released) idle.push(whole);
        released = true;
      };
      return { buffer: whole.subarray(0, bytes), release };
    },
  };
}
