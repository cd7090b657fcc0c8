import type { Locks } from '../adapters/postgres/locks.ts';

/**
 * Runs work in one process of the installation at a time. Other processes stand by, and one takes
 * over when this one ends or loses its lock. `stop` aborts with the lock, and the work must then
 * end. Returns when the signal aborts. Throws what the work throws.
 */
export async function inOneProcess(
  locks: Locks,
  name: string,
  signal: AbortSignal,
  work: (stop: AbortSignal) => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    const held = await locks.acquire(name, signal).catch(() => null);
    if (!held) return;
    try {
      await work(AbortSignal.any([signal, held.signal]));
    } finally {
      await held.release();
    }
  }
}
