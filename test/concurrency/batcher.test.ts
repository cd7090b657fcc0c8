import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createBatcher, NoAnswer } from '../../src/concurrency/batcher.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
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

it('a batcher waits indefinitely without a limit', async () => {
  const { promise, resolve } = Promise.withResolvers<string[]>();
  const call = createBatcher(() => promise, { answerWithinMs: null });
  const slow = call('slow');
  await vi.advanceTimersByTimeAsync(3_600_000);
  resolve(['at last']);
  expect(await slow).toBe('at last');
});
