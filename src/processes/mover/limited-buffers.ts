import type { BufferPool, FileBuffers, PooledBuffer } from './buffer-pool.ts';

/** Chunks under way of a file with a limit: one is read while the other is written. */
const LIMITED_BUFFERS = 2;

/** The buffers of one file. */
export interface LimitedBuffers extends FileBuffers {
  /** Takes what the file holds out of the pool, when its bandwidth becomes limited. */
  keep(): void;
}

/**
 * Wraps the pool for one file. While its bandwidth is limited, it holds its buffers for long, so it
 * gets further ones: those that files share are for files that move at full speed.
 */
export function createLimitedBuffers(pool: BufferPool, limited: () => boolean): LimitedBuffers {
  const held = new Set<PooledBuffer>();

  function hold(pooled: PooledBuffer): PooledBuffer {
    held.add(pooled);
    const release = () => {
      held.delete(pooled);
      pooled.release();
    };
    return { ...pooled, release };
  }

  return {
    bufferBytes: pool.bufferBytes,
    async take(bytes, signal) {
      if (limited()) return hold(pool.takeFurther(bytes));
      const pooled = await pool.take(bytes, signal);
      // The limit may have begun meanwhile.
      if (limited()) pooled.keep();
      return hold(pooled);
    },
    tryTake(bytes) {
      if (limited()) return held.size < LIMITED_BUFFERS ? hold(pool.takeFurther(bytes)) : null;
      const pooled = pool.tryTake(bytes);
      return pooled && hold(pooled);
    },
    keep() {
      for (const pooled of held) pooled.keep();
    },
  };
}
