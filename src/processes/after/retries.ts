/*
 * When a failed step is tried again. Outages and refusals are counted apart: the first refusal after
 * an outage has all its retries left. Each count has an end, so every step ends.
 */
import type { ClaimedSteps } from './table.ts';

const FIRST_DELAY_MS = 60_000;
const LONGEST_DELAY_MS = 86_400_000;
/** Later tries are a day apart, so a server can be down for two weeks. */
const MAX_TRIES = 25;

type Counts = Pick<ClaimedSteps, 'tries' | 'refusals'>;

/** Returns the counts after a failed try, and when to try again. Without a delay, give up. */
export function nextTry(
  { tries, refusals }: Counts,
  outage: boolean,
  retryDelays: readonly number[],
): Counts & { delayMs: number | undefined } {
  if (!outage) return { tries, refusals: refusals + 1, delayMs: retryDelays[refusals] };
  return { tries: tries + 1, refusals, delayMs: outageDelay(tries + 1) };
}

function outageDelay(tries: number): number | undefined {
  return tries < MAX_TRIES
    ? Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (tries - 1))
    : undefined;
}
