import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Batch } from '../../../src/adapters/event-store/port.ts';
import { createTail, type Tail } from '../../../src/adapters/event-store/tail.ts';
import type { StoredEvent } from '../../../src/domain/event.ts';
import { event } from './events.ts';

const at = (position: bigint, stream = 'transfer-1'): StoredEvent => ({ ...event(), stream, revision: 0, position });
const positions = ({ events }: Batch) => events.map(({ position }) => Number(position));
const tailFrom = (from: bigint, room = 10) => createTail({ streams: ['transfer-'], names: ['p_transfer-'], from, room });

/** A tail that has read everything up to a position. */
async function caughtUpAt(position: bigint, room?: number): Promise<Tail> {
  const tail = tailFrom(position, room);
  await tail.read(position, async () => ({ events: [], position, caughtUp: true }));
  expect(tail.behind()).toBe(false);
  return tail;
}

describe('the tail of the log', () => {
  it('begins behind', () => {
    expect(tailFrom(0n).behind()).toBe(true);
  });

  it('takes what follows on what it knows, and need not hear of it', async () => {
    const tail = await caughtUpAt(4n);
    tail.hand(5n, 6n, [at(5n), at(6n)]);
    tail.announce(['p_transfer'], 6n);
    expect(tail.behind()).toBe(false);
    expect(await tail.bell.wait(0)).toBe(true);
    expect(positions(tail.take())).toEqual([5, 6]);
  });

  it('passes over what is not of its streams', async () => {
    const tail = await caughtUpAt(4n);
    tail.hand(5n, 5n, [at(5n, 'key-1')]);
    tail.announce(['p_key'], 9n);
    expect(tail.behind()).toBe(false);
    expect(await tail.bell.wait(0)).toBe(false);
    tail.hand(6n, 6n, [at(6n)]);
    expect(tail.take()).toMatchObject({ position: 6n, events: [{ position: 6n }] });
  });

  it.each<[string, (tail: Tail) => void]>([
    ['somebody else has appended before', (tail) => tail.hand(6n, 6n, [at(6n)])],
    ['it has no more room', (tail) => tail.hand(5n, 7n, [at(5n), at(6n), at(7n)])],
    ['somebody else has appended', (tail) => tail.announce(['p_key', 'p_transfer'], 5n)],
    ['nobody knows what was missed', (tail) => tail.announce(null, null)],
  ])('has to read where %s', async (_, happens) => {
    const tail = await caughtUpAt(4n, 2);
    happens(tail);
    expect(tail.behind()).toBe(true);
    expect(await tail.bell.wait(0)).toBe(true);
  });

  it('stays behind where reading fails', async () => {
    const tail = await caughtUpAt(4n);
    await expect(tail.read(4n, () => Promise.reject(new Error('away')))).rejects.toThrow('away');
    expect(tail.behind()).toBe(true);
  });

  it('gives every event once and in order, whoever appends, and whenever it is read', async () => {
    const step = fc.record({
      /** Appended here, or elsewhere and announced. */
      own: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 2 }),
      foreign: fc.integer({ min: 0, max: 2 }),
      /** What happens between the look into the log and its answer. */
      duringRead: fc.constantFrom('nothing', 'own', 'foreign'),
      take: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const tail = tailFrom(0n, 4);
        let head = 0n;
        let given = 0n;
        const seen: number[] = [];
        const appendHere = (count: number) => {
          const events = Array.from({ length: count }, (_, i) => at(head + BigInt(i + 1)));
          const first = head + 1n;
          head += BigInt(count);
          tail.hand(first, head, events);
        };
        const appendElsewhere = (count: number) => {
          head += BigInt(count);
          if (count > 0) tail.announce(['p_transfer'], head);
        };
        const pull = async (during: string) => {
          const read = async (from: bigint) => {
            const last = head - from > 5n ? from + 5n : head;
            const events = Array.from({ length: Number(last - from) }, (_, i) => at(from + BigInt(i + 1)));
            const batch = { events, position: last, caughtUp: last === head };
            if (during === 'own') appendHere(1);
            if (during === 'foreign') appendElsewhere(1);
            return batch;
          };
          const batch = tail.behind() ? await tail.read(given, read) : tail.take();
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
