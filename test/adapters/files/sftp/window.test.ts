import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createWindow } from '../../../../src/adapters/files/sftp/window.ts';

test('never has more under way than its width, over all calls, and does everything', async () => {
  const window = createWindow(3);
  let underway = 0;
  let most = 0;
  const done: number[] = [];
  const work = async (item: number) => {
    most = Math.max(most, ++underway);
    await turn();
    underway--;
    done.push(item);
  };
  await Promise.all([window.all([1, 2, 3, 4, 5], work), window.all([6, 7, 8], work)]);
  expect(most).toBe(3);
  expect(done.sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  window.grow(2);
  await window.all([1, 2, 3, 4, 5, 6], work);
  expect(most).toBe(5);
});

test('throws the first error only when everything under way has ended, and begins no more', async () => {
  const window = createWindow(2);
  const slow = Promise.withResolvers<void>();
  const begun: string[] = [];
  let settled = false;
  const all = window
    .all(['slow', 'failing', 'never begun'], async (item) => {
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
  await window.all(['a', 'b'], async (item) => void begun.push(item));
  expect(begun).toContain('b');
});
