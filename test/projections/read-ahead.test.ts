import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { EventBatch } from '../../src/adapters/event-store/port.ts';
import { readAhead } from '../../src/projections/read-ahead.ts';

/** A subscription to a log with this many batches, which then fails or waits for more. */
function subscription(batches: number, after: 'fails' | 'waits' = 'waits') {
  const seen = { read: 0, closed: false };
  async function* read(): AsyncGenerator<EventBatch> {
    try {
      while (seen.read < batches) {
        seen.read++;
        yield {
          events: [],
          position: BigInt(seen.read),
          caughtUp: after === 'waits' && seen.read === batches,
        };
      }
      if (after === 'fails') throw new Error('the log is gone');
      await new Promise(() => undefined);
    } finally {
      seen.closed = true;
    }
  }
  return { seen, batches: read() };
}

it('a read-ahead reads only the next batch during the work on one', async () => {
  const { seen, batches } = subscription(4);
  const given: [bigint, number][] = [];
  for await (const { position } of readAhead(batches)) {
    await setImmediate();
    given.push([position, seen.read]);
  }
  expect(given).toEqual([
    [1n, 2],
    [2n, 3],
    [3n, 4],
    [4n, 4],
  ]);
  expect(seen.closed).toBe(true);
});

it('a read-ahead yields the batches that were read before it throws the read error', async () => {
  const { batches } = subscription(2, 'fails');
  const given: bigint[] = [];
  const reading = async () => {
    for await (const { position } of readAhead(batches)) {
      await setImmediate();
      given.push(position);
    }
  };
  await expect(reading()).rejects.toThrow('the log is gone');
  expect(given).toEqual([1n, 2n]);
});

it('a read-ahead closes the subscription if the work on a batch fails', async () => {
  const { seen, batches } = subscription(9);
  const working = async () => {
    for await (const _ of readAhead(batches)) throw new Error('the disk is full');
  };
  await expect(working()).rejects.toThrow('the disk is full');
  expect(seen).toEqual({ read: 2, closed: true });
});
