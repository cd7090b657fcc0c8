import { type BufferPool, ownMemory, type PooledBuffer } from './buffer-pool.ts';

/** Chunks under way of a file with a limit: one is read while the other is written. */
const OWN_BUFFERS = 2;

/** The buffers of one file. */
export interface LimitedBuffers extends BufferPool {
  /** Takes what the file holds out of the pool, when its bandwidth becomes limited. */
  keep(): void;
}

/**
 * Wraps the pool for one file. While its bandwidth is limited, it holds its buffers for long, so it
 * gets memory of its own: the buffers of the pool are for files that move at full speed.
 */
export function createLimitedBuffers(pool: BufferPool, limited: () => boolean): LimitedBuffers {
  const held = new Set<PooledBuffer>();

  function hold(pooled: PooledBuffer): PooledBuffer {
    const holding = {
      ...pooled,
      release() {
        held.delete(holding);
        pooled.release();
      },
    };
    held.add(holding);
    return holding;
  }

  return {
    bufferBytes: pool.bufferBytes,
    async take(bytes, signal) {
      signal.throwIfAborted();
      if (limited()) return hold(ownMemory(bytes));
      const pooled = await pool.take(bytes, signal);
      // The limit may have begun meanwhile.
      if (limited()) pooled.keep();
      return hold(pooled);
    },
    tryTake(bytes) {
      if (limited()) return held.size < OWN_BUFFERS ? hold(ownMemory(bytes)) : null;
      const pooled = pool.tryTake(bytes);
      return pooled && hold(pooled);
    },
    keep() {
      for (const pooled of held) pooled.keep();
    },
  };
}
