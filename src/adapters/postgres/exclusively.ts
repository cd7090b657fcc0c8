import { DomainError } from '../../domain/errors.ts';
import type { Locks } from './locks.ts';

const LOCK_WITHIN_MS = 10_000;

/**
 * Runs `work` under a lock: `CommandDeps.exclusively`. Throws `unavailable` if the lock is not free
 * within ten seconds.
 */
export async function exclusively<T>(
  locks: Locks,
  name: string,
  work: (assertHeld: () => void) => Promise<T>,
): Promise<T> {
  const held = await locks
    .acquire(name, AbortSignal.timeout(LOCK_WITHIN_MS))
    .catch((error: unknown) => {
      throw new DomainError(
        'unavailable',
        'Another request is changing the same resource; try again in a moment',
        {},
        { cause: error },
      );
    });
  const assertHeld = () => {
    if (!held.signal.aborted) return;
    throw new DomainError(
      'unavailable',
      'The lock that serializes this change was lost before it began; try again in a moment',
      {},
      { cause: held.signal.reason },
    );
  };
  try {
    return await work(assertHeld);
  } finally {
    await held.release();
  }
}
