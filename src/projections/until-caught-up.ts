import { setTimeout as sleep } from 'node:timers/promises';
import { withTimeout } from '../concurrency/with-timeout.ts';
import type { Consumer, ConsumerDeps } from './consumer.ts';
import { isCaughtUp } from './read-to-end.ts';
import { catchUpIfIdle } from './run-consumer.ts';

const LOOK_MS = 250;
const ANSWER_WITHIN_MS = 5_000;

/**
 * Waits until a consumer, in any process, has processed everything that the log holds now, or until
 * the signal aborts. A read model that is being filled from the start shows an old state until
 * then. With `orByOurselves` it runs the consumer itself if no process does.
 */
export async function untilCaughtUp(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
  { orByOurselves = false } = {},
): Promise<void> {
  let end: bigint | null = null;
  async function isDone(within: AbortSignal): Promise<boolean> {
    end ??= await deps.store.head();
    return isCaughtUp(deps, consumer, { signal: within, end });
  }

  for (let logged = false; !signal.aborted; logged = true) {
    const asked = isDone(AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]));
    const caughtUp = withTimeout(ANSWER_WITHIN_MS, asked, Error, signal);
    if (await caughtUp.catch(() => false)) return;
    if (orByOurselves) await catchUpIfIdle(deps, consumer, signal).catch(() => undefined);
    if (!logged) deps.logger.info({ consumer: consumer.name }, 'waits until the log has been read');
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}
