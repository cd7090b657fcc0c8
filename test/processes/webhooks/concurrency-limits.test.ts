import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import {
  type ConcurrencyLimits,
  createConcurrencyLimits,
  type Done,
} from '../../../src/processes/webhooks/deliverer/concurrency-limits.ts';

let limits: ConcurrencyLimits<number>;
let underWay: { work: number; end(done: Done): void }[];
let givenBack: number[];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  underWay = [];
  givenBack = [];
  limits = createConcurrencyLimits<number>({
    begin: (work) => new Promise((end) => underWay.push({ work, end })),
    release: (works) => givenBack.push(...works),
    onCapacity: () => undefined,
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const enter = (count: number, webhookId = 'whk_a') => {
  for (let work = 0; work < count; work++) limits.add(webhookId, work);
};
async function end(arrived: boolean, afterMs: number): Promise<void> {
  vi.advanceTimersByTime(afterMs);
  for (const one of underWay.splice(0)) one.end({ delivered: arrived, tookMs: afterMs });
  await new Promise((resolve) => setImmediate(resolve));
}
const places = (webhookId = 'whk_a') => limits.capacity().webhooks.get(webhookId)?.free;

it('concurrency limits start at 8, and add one for each success, up to 32', async () => {
  enter(100);
  expect(underWay).toHaveLength(8);
  await end(true, 1);
  expect(underWay).toHaveLength(16);
  await end(true, 1);
  await end(true, 1);
  expect(underWay).toHaveLength(32);
});

it('concurrency limits claim ahead only for a fast webhook', async () => {
  enter(8);
  await end(true, 10);
  expect(places()).toBe(8 * 16);
  enter(16);
  await end(true, 1_000);
  expect(places()).toBe(32);
});

it('concurrency limits leave two places to an unresponsive webhook', async () => {
  enter(20);
  const before = limits.capacity().unproven;
  await end(false, 10);
  expect(givenBack).toEqual([8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
  expect([limits.capacity().unproven - before, places()]).toEqual([20, 2]);
});

it('concurrency limits stay the same for a webhook that fails one request in ten', async () => {
  enter(1_000);
  for (let n = 1; n <= 200; n++) {
    underWay.shift()?.end({ delivered: n % 10 !== 0, tookMs: 10 });
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(underWay).toHaveLength(32);
  expect(givenBack).toEqual([]);
  expect(limits.capacity().webhooks.get('whk_a')?.healthy).toBe(true);
});

it('concurrency limits halve the places of a webhook that starts to fail', async () => {
  enter(400);
  for (let round = 0; round < 3; round++) await end(true, 10);
  expect(underWay).toHaveLength(32);
  for (let round = 0; round < 2; round++) await end(false, 10);
  expect([places(), limits.capacity().webhooks.get('whk_a')?.healthy]).toEqual([2, false]);
  expect(givenBack.length).toBeGreaterThan(200);
});

it('concurrency limits halve the places at each request that hangs', async () => {
  enter(64);
  await end(true, 10);
  await end(true, 10);
  vi.advanceTimersByTime(10_000);
  for (const one of underWay.splice(0, 4)) one.end({ delivered: false, tookMs: 10_000 });
  await new Promise((resolve) => setImmediate(resolve));
  for (const one of underWay.splice(0)) one.end({ delivered: true, tookMs: 10_000 });
  await new Promise((resolve) => setImmediate(resolve));
  expect(givenBack.length).toBeGreaterThan(0);
});

it('concurrency limits treat a webhook as healthy again when it answers', async () => {
  enter(8);
  await end(false, 10);
  for (let round = 0; round < 12; round++) {
    enter(2);
    await end(true, 10);
  }
  expect(limits.capacity().webhooks.get('whk_a')?.healthy).toBe(true);
});

it('concurrency limits claim for half of the places at once, or for none', async () => {
  enter(8);
  await end(true, 1_000);
  enter(9);
  expect(places()).toBe(0);
  underWay[0]?.end({ delivered: true, tookMs: 10 });
  await new Promise((resolve) => setImmediate(resolve));
  expect(places()).toBeGreaterThan(0);
});

it('concurrency limits keep room for healthy webhooks beside those that hang', async () => {
  enter(8);
  await end(true, 10);
  const before = limits.capacity();
  for (const webhookId of ['whk_b', 'whk_c', 'whk_d']) enter(8, webhookId);
  const after = limits.capacity();
  expect([after.healthy, after.unproven]).toEqual([before.healthy, before.unproven - 24]);
  expect([after.webhooks.get('whk_a')?.healthy, after.webhooks.get('whk_b')?.healthy]).toEqual([
    true,
    false,
  ]);
});

it('concurrency limits distrust a webhook whose requests wait for a second', async () => {
  enter(8);
  await end(true, 10);
  enter(8);
  const before = limits.capacity();
  vi.advanceTimersByTime(1_001);
  const after = limits.capacity();
  expect([after.healthy - before.healthy, before.unproven - after.unproven]).toEqual([8, 8]);
  expect(after.webhooks.get('whk_a')?.healthy).toBe(false);
  await end(true, 10);
  expect(limits.capacity().webhooks.get('whk_a')?.healthy).toBe(true);
});

it('concurrency limits know which webhooks answer soon', async () => {
  const soon = () => limits.answersWithin(25, 'whk_a');
  expect(soon()).toBe(false);
  enter(2);
  await end(true, 24);
  expect([soon(), limits.answersWithin(24, 'whk_a')]).toEqual([true, false]);
  enter(2);
  vi.advanceTimersByTime(101);
  expect(soon()).toBe(false);
  await end(true, 1);
  expect(soon()).toBe(true);
  for (let n = 0; n < 8; n++) {
    enter(1);
    await end(false, 1);
  }
  expect(soon()).toBe(false);
});

it('concurrency limits forget webhooks without requests for an hour: most were removed', async () => {
  enter(1, 'whk_removed');
  enter(1, 'whk_hangs');
  underWay.shift()?.end({ delivered: true, tookMs: 10 });
  await new Promise((resolve) => setImmediate(resolve));
  const known = () => [...limits.capacity().webhooks.keys()];
  vi.advanceTimersByTime(59 * 60_000);
  expect(known()).toEqual(['whk_removed', 'whk_hangs']);
  vi.advanceTimersByTime(2 * 60_000);
  expect(known()).toEqual(['whk_hangs']);
});
