import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { isDiskFull, isPostgresUnavailable } from '../../postgres/unavailable.ts';
import { EventStoreFull, EventStoreUnavailable } from '../port.ts';

/**
 * After this time, the call is repeated over another connection. Otherwise it takes 15 minutes to
 * notice that the other end of a connection has vanished. A slow first call may still answer.
 */
const ANSWER_WITHIN_MS = 5_000;
/** For how long calls are repeated. */
export const RETRY_FOR_MS = 10_000;

/**
 * Repeats a call that is safe to repeat until Postgres answers. Throws EventStoreUnavailable if it
 * does not answer in time, and EventStoreFull at once if its disk has no room.
 */
export async function retryWhileUnavailable<T>(
  call: () => Promise<T>,
  forMs = RETRY_FOR_MS,
): Promise<T> {
  const deadline = performance.now() + forMs;
  const { promise: answered, resolve: answer } = Promise.withResolvers<T>();
  for (let pause = 50; ; pause = Math.min(pause * 2, 1_000)) {
    try {
      const attempt = call();
      attempt.then(answer, () => undefined);
      return await withTimeout(
        Math.min(ANSWER_WITHIN_MS, deadline - performance.now()),
        Promise.race([answered, attempt]),
        EventStoreUnavailable,
      );
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      // Postgres has answered, and time alone gives it no room.
      if (isDiskFull(error))
        throw new EventStoreFull('Postgres, which holds the event log, has no room on its disk', {
          cause: error,
        });
      if (performance.now() + pause > deadline)
        throw new EventStoreUnavailable('Postgres, which holds the event log, does not answer', {
          cause: error,
        });
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

/** Returns null for a failure that a later call may not meet. Throws any other. */
export function ignoreUnavailable(error: unknown): null {
  if (!isUnavailable(error)) throw error;
  return null;
}

/**
 * Returns whether the error is a missing answer, a deadlock or a serialization failure (class 40).
 * The same call may succeed the next time.
 */
function isUnavailable(error: unknown): boolean {
  return (
    error instanceof EventStoreUnavailable ||
    isPostgresUnavailable(error) ||
    String((error as { code?: unknown }).code).startsWith('40')
  );
}
