import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EventBatch } from '../../../../src/adapters/event-store/port.ts';
import {
  type AppendCache,
  createAppendCache,
} from '../../../../src/adapters/event-store/postgres/append-cache.ts';
import type { StoredEvent } from '../../../../src/domain/events/event.ts';
import { event } from '../events.ts';

const at = (position: bigint, stream = 'transfer-1'): StoredEvent => ({
  ...event(),
  stream,
  revision: 0,
  position,
});
const positions = ({ events }: EventBatch) => events.map(({ position }) => Number(position));
const tailFrom = (from: bigint, room = 10) =>
  createAppendCache({ streams: ['transfer-'], names: ['p_transfer-'], from, room });

/** A cache that has read everything up to a position. */
async function caughtUpAt(position: bigint, room?: number): Promise<AppendCache> {
  const cache = tailFrom(position, room);
  await cache.read(position, async () => ({ events: [], position, caughtUp: true }));
  expect(cache.behind()).toBe(false);
  return cache;
}

describe('the append cache of the log', () => {
  it('starts behind the log', () => {
    expect(tailFrom(0n).behind()).toBe(true);
  });

  it('serves the events that follow its position without a notification', async () => {
    const cache = await caughtUpAt(4n);
    cache.add(5n, 6n, [at(5n), at(6n)]);
    cache.announce(['p_transfer'], 6n);
    expect(cache.behind()).toBe(false);
    expect(await cache.wakeUp.wait(0)).toBe(true);
    expect(positions(cache.take(10))).toEqual([5, 6]);
  });

  it('serves many events in parts', async () => {
    const cache = await caughtUpAt(4n);
    cache.add(5n, 8n, [at(5n), at(6n), at(7n)]);
    expect(cache.take(2)).toMatchObject({ position: 6n, caughtUp: false });
    expect(cache.take(2)).toMatchObject({ position: 8n, caughtUp: true });
    expect(cache.behind()).toBe(false);
  });

  it('forgets what it holds after a lost connection, and notices what took the place', async () => {
    const cache = await caughtUpAt(4n);
    cache.add(5n, 5n, [at(5n)]);
    cache.reconnected();
    expect(cache.behind()).toBe(true);
    await cache.read(4n, async () => ({ events: [], position: 4n, caughtUp: true }));
    expect(positions(cache.take(10))).toEqual([]);
    cache.announce(['p_transfer'], 5n);
    expect(cache.behind()).toBe(true);
  });

  it('skips events of other streams', async () => {
    const cache = await caughtUpAt(4n);
    cache.add(5n, 5n, [at(5n, 'key-1')]);
    cache.announce(['p_key'], 9n);
    expect(cache.behind()).toBe(false);
    expect(await cache.wakeUp.wait(0)).toBe(false);
    cache.add(6n, 6n, [at(6n)]);
    expect(cache.take(10)).toMatchObject({ position: 6n, events: [{ position: 6n }] });
  });

  it.each<[string, (cache: AppendCache) => void]>([
    ['another process appended first', (cache) => cache.add(6n, 6n, [at(6n)])],
    ['it has no more room', (cache) => cache.add(5n, 7n, [at(5n), at(6n), at(7n)])],
    ['another process appended', (cache) => cache.announce(['p_key', 'p_transfer'], 5n)],
    ['a notification may have been lost', (cache) => cache.announce(null, null)],
  ])('requires a read when %s', async (_, happens) => {
    const cache = await caughtUpAt(4n, 2);
    happens(cache);
    expect(cache.behind()).toBe(true);
    expect(await cache.wakeUp.wait(0)).toBe(true);
  });

  it('stays behind after a failed read', async () => {
    const cache = await caughtUpAt(4n);
    await expect(cache.read(4n, () => Promise.reject(new Error('away')))).rejects.toThrow('away');
    expect(cache.behind()).toBe(true);
  });

  it('returns every event once and in order, for any order of appends and reads', async () => {
    const step = fc.record({
      /** Appended by this process, or by another one with a notification. */
      own: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 2 }),
      foreign: fc.integer({ min: 0, max: 2 }),
      /** What happens between the query of the log and its answer. */
      duringRead: fc.constantFrom('nothing', 'own', 'foreign'),
      take: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const cache = tailFrom(0n, 4);
        let head = 0n;
        let given = 0n;
        const seen: number[] = [];
        const appendHere = (count: number) => {
          const events = Array.from({ length: count }, (_, i) => at(head + BigInt(i + 1)));
          const first = head + 1n;
          head += BigInt(count);
          cache.add(first, head, events);
        };
        const appendElsewhere = (count: number) => {
          head += BigInt(count);
          if (count > 0) cache.announce(['p_transfer'], head);
        };
        const pull = async (during: string) => {
          const read = async (from: bigint) => {
            const last = head - from > 5n ? from + 5n : head;
            const events = Array.from({ length: Number(last - from) }, (_, i) =>
              at(from + BigInt(i + 1)),
            );
            const batch = { events, position: last, caughtUp: last === head };
            if (during === 'own') appendHere(1);
            if (during === 'foreign') appendElsewhere(1);
            return batch;
          };
          const batch = cache.behind() ? await cache.read(given, read) : cache.take(2);
          seen.push(...positions(batch));
          if (batch.position > given) given = batch.position;
        };
        for (const { own, foreign, duringRead, take } of steps) {
          for (const count of own) appendHere(count);
          appendElsewhere(foreign);
          if (take) await pull(duringRead);
        }
        while (given < head) await pull('nothing');
        expect(seen).toEqual(Array.from({ length: Number(head) }, (_, i) => i + 1));
      }),
      { numRuns: 500 },
    );
  });
});
