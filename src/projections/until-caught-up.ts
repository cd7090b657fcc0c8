/*
 * Waits until a consumer has processed what the log holds. `untilCaughtUp` waits as long as it
 * takes, through outages. `catchUp` serves a caller: it fails with the first error.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../concurrency/pause.ts';
import { unlessStopped } from '../concurrency/unless-stopped.ts';
import { withTimeout } from '../concurrency/with-timeout.ts';
import type { Consumer, ConsumerDeps } from './consumer.ts';
import { isCaughtUp } from './read-to-end.ts';
import { catchUpIfIdle } from './run-consumer.ts';

const LOOK_MS = 250;
/** A caller of `catchUp` wants its answer soon. */
const SOON_MS = 50;
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
    await pause(LOOK_MS, signal);
  }
}

/**
 * Returns true when a consumer has processed everything that the log holds now. Runs the consumer
 * if no process does. Returns false if the signal aborts before. Throws the error of a store.
 */
export async function catchUp(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
): Promise<boolean> {
  const end = await unlessStopped(deps.store.head(), signal, 0);
  while (!signal.aborted) {
    if (await isCaughtUp(deps, consumer, { signal, end })) return true;
    await catchUpIfIdle(deps, consumer, signal);
    await sleep(SOON_MS);
  }
  return false;
}
