import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createSemaphore } from '../../src/concurrency/semaphore.ts';

test('a semaphore runs all work, never more at once than it has permits', async () => {
  const semaphore = createSemaphore(3);
  let underway = 0;
  let most = 0;
  const done: number[] = [];
  const work = async (item: number) => {
    most = Math.max(most, ++underway);
    await turn();
    underway--;
    done.push(item);
  };
  await Promise.all([semaphore.forEach([1, 2, 3, 4, 5], work), semaphore.forEach([6, 7, 8], work)]);
  expect(most).toBe(3);
  expect(done.sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  semaphore.grow(2);
  await semaphore.forEach([1, 2, 3, 4, 5, 6], work);
  expect(most).toBe(5);
});

test('the items of one call go before those of the next', async () => {
  const semaphore = createSemaphore(2);
  const begun: string[] = [];
  const work = async (item: string) => {
    begun.push(item);
    await turn();
  };
  await Promise.all([
    semaphore.forEach(['a1', 'a2', 'a3', 'a4'], work),
    semaphore.forEach(['b1', 'b2', 'b3', 'b4'], work),
  ]);
  expect(begun).toEqual(['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'b3', 'b4']);
});

test('a semaphore starts no more after an error, and throws it at the end', async () => {
  const semaphore = createSemaphore(2);
  const slow = Promise.withResolvers<void>();
  const begun: string[] = [];
  let settled = false;
  const all = semaphore
    .forEach(['slow', 'failing', 'never begun'], async (item) => {
      begun.push(item);
      if (item === 'slow') await slow.promise;
      else throw new Error(item);
    })
    .finally(() => {
      settled = true;
    });
  all.catch(() => {});
  for (let turns = 0; turns < 5; turns++) await turn();
  expect(settled).toBe(false);
  slow.resolve();
  await expect(all).rejects.toThrow('failing');
  expect(begun).toEqual(['slow', 'failing']);
  await semaphore.forEach(['a', 'b'], async (item) => void begun.push(item));
  expect(begun).toContain('b');
});

test('a request whose signal has aborted, or aborts, gets no permit', async () => {
  const semaphore = createSemaphore(1);
  const reason = new Error('stopped');
  await expect(semaphore.acquire(AbortSignal.abort(reason))).rejects.toBe(reason);
  const release = await semaphore.acquire();
  await expect(semaphore.acquire(AbortSignal.abort(reason))).rejects.toBe(reason);
  const stop = new AbortController();
  const waiting = semaphore.acquire(stop.signal);
  stop.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  release();
  await semaphore.acquire();
});
