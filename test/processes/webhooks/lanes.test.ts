import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createLanes, type Lanes } from '../../../src/processes/webhooks/lanes.ts';

let lanes: Lanes<number>;
let underWay: { work: number; end(arrived: boolean): void }[];
let givenBack: number[];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  underWay = [];
  givenBack = [];
  lanes = createLanes<number>({
    begin: (work) => new Promise((end) => underWay.push({ work, end })),
    giveBack: (works) => givenBack.push(...works),
    onRoom: () => undefined,
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const enter = (count: number, webhookId = 'whk_a') => {
  for (let work = 0; work < count; work++) lanes.enter(webhookId, work);
};
async function end(arrived: boolean, afterMs: number): Promise<void> {
  vi.advanceTimersByTime(afterMs);
  for (const one of underWay.splice(0)) one.end(arrived);
  await new Promise((resolve) => setImmediate(resolve));
}
const places = (webhookId = 'whk_a') => lanes.room().places.get(webhookId)?.free;

it('let eight begin, and one more for each that arrives, up to 32', async () => {
  enter(100);
  expect(underWay).toHaveLength(8);
  await end(true, 1);
  expect(underWay).toHaveLength(16);
  await end(true, 1);
  await end(true, 1);
  expect(underWay).toHaveLength(32);
});

it('claim ahead for one that answers soon, and only what can be sent at once for one that takes its time', async () => {
  enter(8);
  await end(true, 10);
  expect(places()).toBe(4 * 16);
  enter(16);
  await end(true, 1_000);
  expect(places()).toBe(32);
});

it('leave one that does not answer two places, and give back what waits', async () => {
  enter(20);
  const before = lanes.room().doubted;
  await end(false, 10);
  expect(givenBack).toEqual([8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
  expect([lanes.room().doubted - before, places()]).toEqual([20, 2]);
});

it('ask for half of the places at once, or none', async () => {
  enter(8);
  await end(true, 1_000);
  enter(9);
  expect(places()).toBe(0);
  underWay[0]?.end(true);
  await new Promise((resolve) => setImmediate(resolve));
  expect(places()).toBeGreaterThan(0);
});

it('keep the room of webhooks that answer from those that hang, new ones and others', async () => {
  enter(8);
  await end(true, 10);
  const before = lanes.room();
  for (const webhookId of ['whk_b', 'whk_c', 'whk_d']) enter(8, webhookId);
  const after = lanes.room();
  expect([after.trusted, after.doubted]).toEqual([before.trusted, before.doubted - 24]);
  expect([after.places.get('whk_a')?.trusted, after.places.get('whk_b')?.trusted]).toEqual([true, false]);
});

it('trust a webhook no more that lets its requests wait for a second, until it answers', async () => {
  enter(8);
  await end(true, 10);
  enter(8);
  const before = lanes.room();
  vi.advanceTimersByTime(1_001);
  const after = lanes.room();
  expect([after.trusted - before.trusted, before.doubted - after.doubted]).toEqual([8, 8]);
  expect(after.places.get('whk_a')?.trusted).toBe(false);
  await end(true, 10);
  expect(lanes.room().places.get('whk_a')?.trusted).toBe(true);
});
