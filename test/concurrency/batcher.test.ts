import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createBatcher, NoAnswer } from '../../src/concurrency/batcher.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

it('a batcher collects calls while a batch is in progress', async () => {
  const batches: number[][] = [];
  const double = createBatcher(async (items: number[]) => {
    batches.push(items);
    await Promise.resolve();
    return items.map((item) => 2 * item);
  });
  const first = [double(1), double(2)];
  await turn();
  expect(await Promise.all([...first, double(3), double(4)])).toEqual([2, 4, 6, 8]);
  expect(batches).toEqual([
    [1, 2],
    [3, 4],
  ]);
});

it('a batcher that gathers begins when enough calls wait, or after its time', async () => {
  const batches: number[][] = [];
  const call = createBatcher(
    async (items: number[]) => {
      batches.push(items);
      return items;
    },
    { gather: { count: 3, ms: 2 } },
  );
  const few = [call(1), call(2)];
  await vi.advanceTimersByTimeAsync(1);
  expect(batches).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(batches).toEqual([[1, 2]]);
  const many = [3, 4, 5, 6].map(call);
  await vi.advanceTimersByTimeAsync(0);
  expect(batches).toEqual([
    [1, 2],
    [3, 4, 5, 6],
  ]);
  expect(await Promise.all([...few, ...many])).toEqual([1, 2, 3, 4, 5, 6]);
  expect(vi.getTimerCount()).toBe(0);
});

it('a batcher fails a batch that gets no answer, and continues with the next one', async () => {
  const perform = vi.fn<(items: string[]) => Promise<string[]>>(async (items) => items);
  perform.mockImplementationOnce(() => new Promise(() => {}));
  const call = createBatcher(perform, { answerWithinMs: 5_000 });
  const silent = call('silent');
  await vi.advanceTimersByTimeAsync(1);
  const after = call('after');
  const failed = expect(silent).rejects.toThrow(NoAnswer);
  await vi.advanceTimersByTimeAsync(5_000);
  await failed;
  expect(await after).toBe('after');
});

it('a call that waits behind batches without an answer fails soon after its own limit', async () => {
  let isBack = false;
  const call = createBatcher(
    (items: string[]) => (isBack ? Promise.resolve(items) : new Promise<string[]>(() => {})),
    { answerWithinMs: 5_000, limit: 1 },
  );
  const ends: string[] = [];
  const note = (name: string) =>
    call(name).then(
      () => ends.push(`${name} answered`),
      () => ends.push(`${name} failed`),
    );
  void note('sent');
  await vi.advanceTimersByTimeAsync(1);
  void note('first behind it');
  void note('second behind it');
  await vi.advanceTimersByTimeAsync(4_999);
  expect(ends).toEqual(['sent failed']);
  void note('later');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ends).toEqual(['sent failed', 'first behind it failed']);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ends).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(2_999);
  expect(ends).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(1);
  expect(ends.at(-1)).toBe('later failed');
  isBack = true;
  await note('at last');
  expect(ends.at(-1)).toBe('at last answered');
});

it('a batch has all of its time after one that was answered', async () => {
  const perform = vi.fn<(items: string[]) => Promise<string[]>>();
  const call = createBatcher(perform, { answerWithinMs: 5_000 });
  const { promise, resolve } = Promise.withResolvers<string[]>();
  perform.mockReturnValueOnce(promise);
  const slow = call('slow');
  await vi.advanceTimersByTimeAsync(1);
  perform.mockImplementationOnce(
    (items) => new Promise((answer) => setTimeout(() => answer(items), 4_500)),
  );
  const behind = call('behind it');
  await vi.advanceTimersByTimeAsync(4_500);
  resolve(['slow']);
  expect(await slow).toBe('slow');
  await vi.advanceTimersByTimeAsync(4_500);
  expect(await behind).toBe('behind it');
});

it('a batcher waits indefinitely without a limit', async () => {
  const { promise, resolve } = Promise.withResolvers<string[]>();
  const call = createBatcher(() => promise, { answerWithinMs: null });
  const slow = call('slow');
  await vi.advanceTimersByTimeAsync(3_600_000);
  resolve(['at last']);
  expect(await slow).toBe('at last');
});
