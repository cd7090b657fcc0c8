import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';
import { planFaults } from './plan.ts';

test('the plan follows from seed and minutes', () => {
  expect(planFaults(7, 10)).toEqual(planFaults(7, 10));
  expect(planFaults(8, 10)).not.toEqual(planFaults(7, 10));
});

test('a longer run begins like a shorter one', () => {
  const short = planFaults(7, 2);
  expect(planFaults(7, 10).filter(({ atMs }) => atMs < 120_000)).toEqual(short);
});

test('a run has only the chosen groups of faults, at the same times', () => {
  const chosen = planFaults(7, 10, ['eventstore', 'disk']);
  expect(new Set(chosen.map(({ fault }) => fault))).toEqual(
    new Set(['eventstore.restart', 'eventstore.freeze', 'eventstore.resign', 'disk.full']),
  );
  expect(planFaults(7, 10)).toEqual(expect.arrayContaining(chosen));
});

test('a run of ten minutes has every fault, ordered by time and within the run', () => {
  const plan = planFaults(7, 10);
  const names = new Set(plan.map(({ fault }) => fault));
  expect(names.size).toBe(27);
  expect(plan.map(({ atMs }) => atMs)).toEqual(
    plan.map(({ atMs }) => atMs).toSorted((a, b) => a - b),
  );
  expect(plan.every(({ atMs, lastsMs }) => atMs < 600_000 && lastsMs <= 45_000)).toBe(true);
});

test.each([
  [['--minutes', '0'], '--minutes is 0'],
  [['--seed', 'x'], '--seed is x'],
  [['--engine', 'mysql'], '--engine is mysql'],
  [['--faults', 'eventstore,x'], '--faults has x'],
  [['--engine', 'eventstoredb'], 'needs EVENTSTORE_URL'],
])('%j is rejected', (args, message) => {
  expect(() => parseOptions(args, {})).toThrow(message);
});

test('EVENTSTORE_URL in the environment chooses the event store', () => {
  expect(parseOptions([], { EVENTSTORE_URL: 'esdb://127.0.0.1:2113?tls=false' }).engine).toBe(
    'eventstoredb',
  );
  expect(parseOptions([], {}).engine).toBe('postgres');
});
