import { setTimeout as sleep } from 'node:timers/promises';
import { isStoreUnavailable } from '../adapters/unavailable.ts';
import { unlessStopped } from '../concurrency/unless-stopped.ts';

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** How long a pending call may still take after the signal aborts. */
const LAST_ANSWER_MS = 2_000;

/**
 * Repeats a call to Postgres or the event store until it answers. The transfer is not at fault if a
 * store is unavailable, so an outage must not end the attempt. After the signal aborts, throws the
 * store's error or the signal's reason. Throws any other error at once. The call must be safe to
 * repeat.
 */
export async function untilAnswered<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      return await unlessStopped(call(), signal, LAST_ANSWER_MS);
    } catch (error) {
      if (signal.aborted || !isStoreUnavailable(error)) throw error;
      await sleep(pause, undefined, { signal }).catch(() => {
        throw error;
      });
    }
  }
}
