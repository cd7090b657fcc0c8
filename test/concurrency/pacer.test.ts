import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createPacer, type PacedShare } from '../../src/concurrency/pacer.ts';

// The clock of these tests is not that of the machine.
beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const RATE = 100_000;
const MUCH = 1_000_000_000;

/** Takes again and again while there is a limit. Returns the bytes so far. */
function moving(share: PacedShare): () => number {
  let moved = 0;
  const take = async (): Promise<void> => {
    const bytes = await share.take(MUCH);
    moved += bytes;
    if (bytes < MUCH) await take();
  };
  take().catch(() => undefined);
  return () => moved;
}

test('without a limit, all bytes move at once', async () => {
  expect(await createPacer().share().take(MUCH)).toBe(MUCH);
});

test('shares move as many bytes as each other, and the limit together', async () => {
  const pacer = createPacer();
  pacer.setRate(RATE);
  const moved = [1, 2, 3].map(() => moving(pacer.share()));
  // This one asks for two chunks at once.
  const both = pacer.share();
  moved.push(moving(both));
  moving(both);
  await vi.advanceTimersByTimeAsync(60_000);
  const [first = 0, ...others] = moved.map((bytes) => bytes());
  for (const bytes of others.slice(0, 2)) expect(bytes / first).toBeCloseTo(1, 1);
  // It has two callers, and only one of them is counted here.
  expect((others[2] as number) / first).toBeCloseTo(0.5, 1);
  const sum = 4 * first;
  expect(sum).toBeGreaterThan(RATE * 58);
  expect(sum).toBeLessThan(RATE * 62);
});

test('a share that takes little leaves the rest to the others', async () => {
  const pacer = createPacer();
  pacer.setRate(RATE);
  const busy = moving(pacer.share());
  const slow = pacer.share();
  let little = 0;
  const trickle = setInterval(async () => {
    little += await slow.take(100);
  }, 1_000);
  await vi.advanceTimersByTimeAsync(60_000);
  clearInterval(trickle);
  expect(little).toBeGreaterThan(5_000);
  expect(busy()).toBeGreaterThan(RATE * 58);
});

test('a change holds for callers that wait, whatever they were to wait', async () => {
  const pacer = createPacer();
  pacer.setRate(1);
  const moved = moving(pacer.share());
  await vi.advanceTimersByTimeAsync(5_000);
  const slow = moved();
  pacer.setRate(RATE);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(moved() - slow).toBeGreaterThan(RATE * 9);
  const waiting = pacer.share().take(MUCH);
  pacer.setRate(null);
  expect(await waiting).toBe(MUCH);
});

test('a rate that is set again and again is no way around it', async () => {
  const pacer = createPacer();
  pacer.setRate(RATE);
  const moved = moving(pacer.share());
  for (let change = 0; change < 1_000; change++) {
    pacer.setRate(RATE + (change % 2));
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(moved()).toBeLessThan(RATE * 12);
});

test('what a frozen process missed is not made up', async () => {
  const pacer = createPacer();
  pacer.setRate(RATE);
  const share = pacer.share();
  await share.take(MUCH);
  await vi.advanceTimersByTimeAsync(3_600_000);
  const moved = moving(share);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(moved()).toBeLessThan(RATE * 2);
});

test('the end of a share rejects its callers, and no others', async () => {
  const pacer = createPacer();
  pacer.setRate(1);
  const [ended, other] = [pacer.share(), pacer.share()];
  await ended.take(MUCH);
  const waiting = [ended.take(MUCH), ended.take(MUCH)];
  const lasting = other.take(MUCH);
  const reason = new Error('closed');
  ended.end(reason);
  for (const take of [...waiting, ended.take(MUCH)]) await expect(take).rejects.toBe(reason);
  pacer.setRate(null);
  expect(await lasting).toBe(MUCH);
});

/** Sends a request, and records when it begins and ends. */
async function sends(share: PacedShare, bytes: number, log: string[], name: string) {
  const request = await share.request(bytes);
  log.push(`${name} begins`);
  for (let left = bytes; left > 0; ) left -= await request.take(left);
  log.push(`${name} ends`);
  request.end();
}

test('at a low limit, a request ends before the next one begins', async () => {
  const pacer = createPacer();
  pacer.setRate(1_024);
  const log: string[] = [];
  const [one, other] = [pacer.share(), pacer.share()];
  void sends(one, 10_000, log, 'first');
  void sends(one, 3_000, log, 'second');
  void sends(other, 3_000, log, 'third');
  await vi.advanceTimersByTimeAsync(16_500);
  // The shares take turns.
  const order = ['first', 'third', 'second'].flatMap((name) => [`${name} begins`, `${name} ends`]);
  expect(log).toEqual(order);
});

test('at a high limit, requests share it', async () => {
  const pacer = createPacer();
  pacer.setRate(128 << 10);
  const log: string[] = [];
  for (const name of ['first', 'second', 'third']) void sends(pacer.share(), 1 << 20, log, name);
  await vi.advanceTimersByTimeAsync(25_000);
  expect(log.map((line) => line.split(' ')[1]).join(' ')).toBe(
    'begins begins ends begins ends ends',
  );
});

test('a request that does not want its bytes lets another one begin', async () => {
  const pacer = createPacer();
  pacer.setRate(1_024);
  const slow = await pacer.share().request(MUCH);
  await slow.take(MUCH);
  const log: string[] = [];
  void sends(pacer.share(), 2_000, log, 'other');
  await vi.advanceTimersByTimeAsync(3_000);
  expect(log).toEqual(['other begins', 'other ends']);
  expect(await slow.take(100)).toBe(100);
});

test('the end of a share ends its requests that wait, and no others', async () => {
  const pacer = createPacer();
  pacer.setRate(1_024);
  const [ended, other] = [pacer.share(), pacer.share()];
  const log: string[] = [];
  void sends(other, 5_000, log, 'other');
  const waiting = ended.request(MUCH);
  const reason = new Error('closed');
  ended.end(reason);
  await expect(waiting).rejects.toBe(reason);
  await vi.advanceTimersByTimeAsync(6_000);
  expect(log).toEqual(['other begins', 'other ends']);
});
