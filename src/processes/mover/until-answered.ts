import { setTimeout as sleep } from 'node:timers/promises';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';

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
      return await unlessStopped(call(), signal);
    } catch (error) {
      if (signal.aborted || !isStoreUnavailable(error)) throw error;
      await sleep(pause, undefined, { signal }).catch(() => {
        throw error;
      });
    }
  }
}

/**
 * Stops the wait soon after the signal aborts: a silent connection may take 15 minutes or forever.
 */
async function unlessStopped<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let stop = (): void => undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => {
      timer = setTimeout(() => reject(signal.reason), LAST_ANSWER_MS);
    };
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([answer, stopped]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}
