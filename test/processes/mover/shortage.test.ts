import pino from 'pino';
import { expect, test } from 'vitest';
import { createShortage } from '../../../src/processes/mover/shortage.ts';

function start() {
  let now = 1_000;
  const lines: Record<string, unknown>[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const shortage = createShortage({ logger }, () => now);
  return {
    shortage,
    pauses: () => lines.flatMap(({ retry_in_ms }) => retry_in_ms ?? []),
    after(ms: number) {
      now += ms;
      return shortage.limit(16);
    },
    try() {
      shortage.claimed();
      shortage.note('too many open files');
    },
  };
}

test('a mover without a shortage claims as many transfers as it has slots for', () => {
  const { shortage } = start();
  shortage.claimed();
  expect(shortage.limit(16)).toBe(16);
  expect(shortage.limit(0)).toBe(0);
});

test('a mover with a shortage claims one transfer after each pause, and pauses longer', () => {
  const { shortage, pauses, after, try: tryOne } = start();
  tryOne();
  // The attempts that began with it say the same.
  for (let i = 0; i < 15; i++) shortage.note('too many open files');
  expect(after(999)).toBe(0);
  expect(after(1)).toBe(1);
  for (let i = 0; i < 6; i++) {
    tryOne();
    expect(after(30_000)).toBe(1);
  }
  expect(pauses()).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

test('a mover tries one transfer at a time, until one of them completes', () => {
  const { shortage, after, try: tryOne } = start();
  tryOne();
  expect(after(1_000)).toBe(1);
  shortage.claimed();
  expect(after(0)).toBe(0);
  // It began before the shortage.
  shortage.completed(500);
  expect(after(0)).toBe(0);
  shortage.completed(1_500);
  expect(after(0)).toBe(16);
});
