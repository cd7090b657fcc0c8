import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createBufferPool } from '../../../src/processes/mover/buffer-pool.ts';

const MiB = 1 << 20;
const never = new AbortController().signal;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a file without a buffer does not wait for those that slow files hold', async () => {
  const pool = createBufferPool(2, MiB);
  const slow = [await pool.take(MiB, never), pool.tryTake(MiB)];
  const files = [pool.take(MiB, never), pool.take(MiB, never)];
  await vi.runAllTimersAsync();
  const [first, second] = await Promise.all(files);
  // Only what no file holds is given out.
  expect(new Set([...slow, first, second].map((held) => held?.buffer.buffer)).size).toBe(4);
  expect(pool.tryTake(MiB)).toBeNull();
  first?.release();
  second?.release();
  expect(pool.tryTake(MiB)).toBeNull();
  slow[0]?.release();
  expect(pool.tryTake(MiB)).not.toBeNull();
  expect(pool.tryTake(MiB)).toBeNull();
});

test('a buffer that is released goes to the file that waits', async () => {
  const pool = createBufferPool(1, MiB);
  const held = await pool.take(MiB, never);
  const waiting = pool.take(MiB, never);
  held.release();
  expect((await waiting).buffer.buffer).toBe(held.buffer.buffer);
  await vi.runAllTimersAsync();
  expect(pool.tryTake(MiB)).toBeNull();
});

test('a file that no longer waits gets no buffer', async () => {
  const pool = createBufferPool(1, MiB);
  const held = await pool.take(MiB, never);
  const stop = new AbortController();
  const waiting = pool.take(MiB, stop.signal);
  stop.abort(new Error('stopped'));
  await expect(waiting).rejects.toThrow('stopped');
  await vi.runAllTimersAsync();
  held.release();
  expect([pool.tryTake(MiB) === null, pool.tryTake(MiB) === null]).toEqual([false, true]);
});

test('further buffers are used again, so slow files do not take more and more memory', async () => {
  const pool = createBufferPool(1, MiB);
  const seen = new Set<ArrayBufferLike>();
  const slow = await pool.take(MiB, never);
  for (let round = 0; round < 5; round++) {
    const files = [pool.take(MiB, never), pool.take(MiB, never)];
    await vi.runAllTimersAsync();
    for (const { buffer, release } of await Promise.all(files)) {
      seen.add(buffer.buffer);
      release();
    }
  }
  slow.release();
  expect(seen.size).toBe(2);
});

test('memory that is there lets no file wait', async () => {
  const pool = createBufferPool(1, MiB);
  await pool.take(MiB, never);
  const further = pool.takeFurther(MiB);
  const waiting = pool.take(MiB, never);
  further.release();
  expect((await waiting).buffer.buffer).toBe(further.buffer.buffer);
  expect(pool.tryTake(MiB)).toBeNull();
});

test('the memory of a small file is used again', async () => {
  const pool = createBufferPool(1, MiB);
  const first = await pool.take(10, never);
  first.release();
  first.release();
  const second = await pool.take(20, never);
  const third = pool.tryTake(20);
  expect(second.buffer.buffer).toBe(first.buffer.buffer);
  expect(third?.buffer.buffer).not.toBe(first.buffer.buffer);
  expect([second.buffer.length, third?.buffer.length]).toEqual([20, 20]);
});
