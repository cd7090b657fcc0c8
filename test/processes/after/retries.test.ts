import { expect, it } from 'vitest';
import { nextTry } from '../../../src/processes/after/retries.ts';

const DELAYS = [10, 20, 30];

/** Returns the delays after these failures in a row: `o` for an outage, `r` for a refusal. */
function delaysAfter(failures: string): (number | undefined)[] {
  let counts = { tries: 0, refusals: 0 };
  return [...failures].map((failure) => {
    const { delayMs, ...next } = nextTry(counts, failure === 'o', DELAYS);
    counts = next;
    return delayMs;
  });
}

it('a refusal has all its retries after an outage, and the other way round', () => {
  expect(delaysAfter('oooorrrr')).toEqual([
    60_000,
    120_000,
    240_000,
    480_000,
    ...DELAYS,
    undefined,
  ]);
  expect(delaysAfter('rroro')).toEqual([10, 20, 60_000, 30, 120_000]);
});

it('an outage is tried for two weeks, a day apart at most', () => {
  const delays = delaysAfter('o'.repeat(25));
  expect(delays.at(-1)).toBeUndefined();
  const days = delays.slice(0, -1).reduce((sum: number, ms = 0) => sum + ms, 0) / 86_400_000;
  expect(days).toBeGreaterThan(14);
});
