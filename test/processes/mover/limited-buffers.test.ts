import { expect, test } from 'vitest';
import { createBufferPool } from '../../../src/processes/mover/buffer-pool.ts';
import { createLimitedBuffers } from '../../../src/processes/mover/limited-buffers.ts';

const MiB = 1 << 20;
const never = new AbortController().signal;

test('without a limit, a file takes the buffers of the pool', async () => {
  const pool = createBufferPool(2, MiB);
  const file = createLimitedBuffers(pool, () => false);
  await file.take(MiB, never);
  const second = file.tryTake(MiB);
  expect(second).not.toBeNull();
  expect(file.tryTake(MiB)).toBeNull();
  second?.release();
  expect(pool.tryTake(MiB)).not.toBeNull();
});

test('with a limit, a file has two of its own and leaves the pool to others', async () => {
  const pool = createBufferPool(2, MiB);
  const file = createLimitedBuffers(pool, () => true);
  const first = await file.take(MiB, never);
  expect(first.buffer.buffer).toBeInstanceOf(SharedArrayBuffer);
  expect(file.tryTake(MiB)).not.toBeNull();
  expect(file.tryTake(MiB)).toBeNull();
  first.release();
  expect(file.tryTake(MiB)).not.toBeNull();
  expect([pool.tryTake(MiB), pool.tryTake(MiB)]).not.toContain(null);
});

test('when a limit begins, the pool gets other buffers for those that the file holds', async () => {
  const pool = createBufferPool(2, MiB);
  let limited = false;
  const file = createLimitedBuffers(pool, () => limited);
  const first = await file.take(MiB, never);
  const second = file.tryTake(MiB);
  const waiting = pool.take(MiB, never);
  limited = true;
  file.keep();
  const other = await waiting;
  expect(other.buffer.buffer).not.toBe(first.buffer.buffer);
  first.release();
  second?.release();
  // The pool is as large as before: one buffer is taken, the other one is free.
  expect([pool.tryTake(MiB) === null, pool.tryTake(MiB) === null]).toEqual([false, true]);
});

test('a file that waited for the pool while a limit began does not hold its buffer', async () => {
  const pool = createBufferPool(1, MiB);
  let limited = false;
  const file = createLimitedBuffers(pool, () => limited);
  const held = await pool.take(MiB, never);
  const waiting = file.take(MiB, never);
  limited = true;
  held.release();
  await waiting;
  expect(pool.tryTake(MiB)).not.toBeNull();
});

test('files with a limit use the memory of those before them', async () => {
  const pool = createBufferPool(2, MiB);
  const seen = new Set<ArrayBufferLike>();
  for (let round = 0; round < 5; round++) {
    const file = createLimitedBuffers(pool, () => true);
    const held = [await file.take(MiB, never), file.tryTake(MiB)];
    for (const one of held) {
      seen.add(one?.buffer.buffer as ArrayBufferLike);
      one?.release();
    }
  }
  expect(seen.size).toBe(2);
});
