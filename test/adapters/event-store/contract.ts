import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import canonicalize from 'canonicalize';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openLog } from '../../../src/adapters/event-store/log-id.ts';
import {
  type EventBatch,
  type EventStore,
  RevisionConflict,
} from '../../../src/adapters/event-store/port.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { hashOfLeaf } from '../../../src/domain/proof/leaf.ts';
import { appendWithRetry, event, events, type GatherOptions, gather, numbers } from './events.ts';

export interface Engine {
  /**
   * An installation's event store. Stores of one name share a log; stores of other names see
   * nothing of it.
   */
  open(prefix: string): Promise<EventStore>;
  /**
   * Cuts all connections, as a server restart does. Undefined if the engine has no way to do it.
   */
  drop?: () => Promise<void>;
  /** Closes every opened store, and what was started for them. */
  close(): Promise<void>;
}

/**
 * What every engine of the event store port must do. The log may be shared: others write to it, and
 * earlier runs wrote to it. Each test has its own installations.
 */
export function describeEventStore(
  name: string,
  setup: () => Promise<Engine>,
  skipped: string | null = null,
): void {
  describe(`event store contract: ${name}`, { timeout: 60_000 }, () => {
    let engine: Engine;
    let prefix: string;
    let store: EventStore;
    let stranger: EventStore;
    /** The end of the log before the test. A shared log may be too long to read from its start. */
    let start: bigint | null;

    beforeAll(async () => {
      if (skipped === null) engine = await setup();
    }, 180_000);
    afterAll(async () => {
      await engine?.close();
    });
    beforeEach(async (context) => {
      if (skipped !== null) context.skip(skipped);
      prefix = newPrefix();
      store = await engine.open(prefix);
      stranger = await engine.open(newPrefix());
      start = await store.head();
    });

    describe('remove', () => {
      const transfers = ['txr_1', 'txr_2'];
      const streams = transfers.map((id) => `transfer-${id}`);

      /** Appends a record that names all events of these streams, and returns its revision. */
      async function record(): Promise<number> {
        const named = await Promise.all(
          transfers.map(async (transfer_id) => ({
            transfer_id,
            events: (await store.read(`transfer-${transfer_id}`)).map(({ id }) => ({ id })),
          })),
        );
        const type = 'log.retention_recorded';
        const made = { ...event(), type, data: { transfers: named } };
        return (await store.append('log-retention', 'no_stream', [made])).revision;
      }

      it('takes whole streams that a record names out of the log, also twice', async () => {
        await store.append('transfer-txr_1', 'no_stream', events(2));
        await store.append('transfer-txr_2', 'no_stream', events(1));
        const kept = events(3);
        await store.append('transfer-txr_3', 'no_stream', kept);
        await store.append('transfer-txr_1', 1, events(1));
        const revision = await record();
        for (let time = 0; time < 2; time++)
          await store.remove(streams, { stream: 'log-retention', revision });
        for (const stream of streams) expect(await store.read(stream)).toEqual([]);
        expect((await store.read('transfer-txr_3')).map(({ id }) => id)).toEqual(
          kept.map(({ id }) => id),
        );
        await store.append('transfer-txr_4', 'no_stream', events(1));
        const batches = await gather(store, {
          from: start,
          streams: ['transfer-txr_3', 'transfer-txr_4'],
          until: ({ count }) => count === 4,
        });
        const found = batches.flatMap((batch) => batch.events);
        expect(found.map(({ stream }) => stream)).toEqual([
          ...Array.from({ length: 3 }, () => 'transfer-txr_3'),
          'transfer-txr_4',
        ]);
        const faults: unknown[] = [];
        for await (const fault of store.findPositionFaults?.() ?? []) faults.push(fault);
        expect(faults).toEqual([]);
      });
    });

    describe('append', () => {
      it('returns the revision and the position of the last event', async () => {
        const first = await store.append('stream-1', 'no_stream', events(2));
        const second = await store.append('stream-1', 1, events(1));
        expect([first.revision, second.revision]).toEqual([1, 2]);
        expect(second.position).toBeGreaterThan(first.position);
        expect((await store.read('stream-1')).map(({ position }) => position).slice(1)).toEqual([
          first.position,
          second.position,
        ]);
      });

      it.each([
        ['no stream, for an existing stream', 'no_stream', 2],
        ['an older revision', 1, 2],
        ['a revision that does not exist yet', 3, 2],
      ] as const)('rejects %s and returns the actual revision', async (_, expected, actual) => {
        await store.append('stream-1', 'no_stream', events(3));
        const refused = await store
          .append('stream-1', expected, events(2))
          .catch((error: unknown) => error);
        expect(refused).toBeInstanceOf(RevisionConflict);
        expect(refused).toMatchObject({ stream: 'stream-1', expected, actual });
        expect(await store.read('stream-1')).toHaveLength(3);
      });

      it('rejects a revision of a stream that does not exist', async () => {
        const refused = await store
          .append('stream-1', 0, events(1))
          .catch((error: unknown) => error);
        expect(refused).toBeInstanceOf(RevisionConflict);
        expect(refused).toMatchObject({ expected: 0, actual: 'no_stream' });
        expect(await store.read('stream-1')).toEqual([]);
      });

      it('rejects an append without events', async () => {
        await expect(store.append('stream-1', 'no_stream', [])).rejects.toBeInstanceOf(RangeError);
        expect(await store.append('stream-1', 'no_stream', events(1))).toMatchObject({
          revision: 0,
        });
      });

      it('rejects data that JSON cannot hold, and continues', async () => {
        await expect(
          store.append('stream-1', 'no_stream', [{ ...event(), data: { size: 1n } }]),
        ).rejects.toThrow();
        expect(await store.append('stream-1', 'no_stream', events(1))).toMatchObject({
          revision: 0,
        });
      });

      it('returns the first result for a repeated append, also after other appends', async () => {
        const made = events(2);
        const first = await store.append('stream-1', 'no_stream', made);
        expect(first.isNew).not.toBe(false);
        const repeated = { ...first, isNew: first.isNew === null ? null : false };
        expect(await store.append('stream-1', 'no_stream', made)).toEqual(repeated);
        const more = events(2);
        const second = await store.append('stream-1', 1, more);
        expect(await store.append('stream-1', 'no_stream', made)).toEqual(repeated);
        expect(await store.append('stream-1', 1, more)).toEqual({
          ...second,
          isNew: repeated.isNew,
        });
        expect(await store.read('stream-1')).toHaveLength(4);
      });

      it('makes one append of many concurrent repetitions', async () => {
        const made = events(3);
        const results = await Promise.all(
          Array.from({ length: 10 }, () => store.append('stream-1', 'no_stream', made)),
        );
        expect(new Set(results.map(({ position }) => position)).size).toBe(1);
        expect(await store.read('stream-1')).toHaveLength(3);
      });

      it('treats the beginning of a stored batch as a repetition', async () => {
        const made = events(3);
        await store.append('stream-1', 'no_stream', made);
        const stored = await store.read('stream-1');
        const result = await store.append('stream-1', 'no_stream', made.slice(0, 2));
        expect(result.revision).toBe(1);
        expect(result.position).toBeGreaterThanOrEqual(stored[1]!.position);
        expect(await store.read('stream-1')).toHaveLength(3);
      });

      it('treats a stored batch with further events as a conflict', async () => {
        const made = events(2);
        await store.append('stream-1', 'no_stream', made);
        await expect(
          store.append('stream-1', 'no_stream', [...made, event()]),
        ).rejects.toBeInstanceOf(RevisionConflict);
        await expect(
          store.append('stream-1', 'no_stream', [made[0]!, event()]),
        ).rejects.toBeInstanceOf(RevisionConflict);
        expect(await store.read('stream-1')).toHaveLength(2);
      });

      it('returns the data that was hashed', async () => {
        const data = {
          text: 'naïve \u2028 😀 "\\ \t',
          numbers: [0, -1, 1.5, 1e21, 5e-324, 9_007_199_254_740_991, 1 / 3],
          nothing: null,
          nested: { z: [], a: [{}, [[]]], '': false },
          ...(JSON.parse('{"__proto__":{"polluted":true}}') as object),
        };
        const made = { ...event(), data };
        await store.append('stream-1', 'no_stream', [made]);
        const [stored] = await store.read('stream-1');
        const { id, type, schema_version, metadata } = stored!;
        expect(canonicalize({ id, type, schema_version, data: stored!.data, metadata })).toBe(
          canonicalize(made),
        );
      });
    });

    describe('read', () => {
      it('returns a stream from a revision, oldest event first', async () => {
        await store.append('stream-1', 'no_stream', events(5));
        await store.append('stream-10', 'no_stream', events(1));
        expect(
          (await store.read('stream-1')).map(({ stream, revision }) => [stream, revision]),
        ).toEqual([0, 1, 2, 3, 4].map((revision) => ['stream-1', revision]));
        expect((await store.read('stream-1', 3)).map(({ revision }) => revision)).toEqual([3, 4]);
        expect((await store.read('stream-1', 1, 2)).map(({ revision }) => revision)).toEqual([
          1, 2,
        ]);
        expect(await store.read('stream-1', 5)).toEqual([]);
      });

      it('returns nothing for a stream that does not exist', async () => {
        expect(await store.read('stream-1')).toEqual([]);
        expect(await store.read('stream-1', 7)).toEqual([]);
      });
    });

    describe('head', () => {
      it('is at or after the newest event', async () => {
        const { position } = await store.append('stream-1', 'no_stream', events(2));
        expect(await store.head()).toBeGreaterThanOrEqual(position);
      });
    });

    describe('subscribe', () => {
      it('reports that an empty log is caught up, then yields new events', async () => {
        const [empty] = await gather(store, { from: start, until: ({ last }) => last.caughtUp });
        expect(empty!.events).toEqual([]);
        await store.append('stream-1', 'no_stream', events(2));
        const batches = await gather(store, {
          from: empty!.position,
          until: ({ count }) => count === 2,
        });
        expect(batches.flatMap((batch) => batch.events)).toEqual(await store.read('stream-1'));
      });

      it('yields every event in log order, at the positions of its append', async () => {
        const appended: bigint[] = [];
        for (const stream of ['stream-1', 'stream-2', 'stream-3']) {
          appended.push((await store.append(stream, 'no_stream', events(1))).position);
          await stranger.append(stream, 'no_stream', events(1));
        }
        const batches = await gather(store, { from: null, until: ({ count }) => count === 3 });
        const given = batches.flatMap((batch) => batch.events);
        expect(given.map(({ stream }) => stream)).toEqual(['stream-1', 'stream-2', 'stream-3']);
        expect(given.map(({ position }) => position)).toEqual(appended);
        expect(batches.at(-1)!.position).toBeGreaterThanOrEqual(appended[2]!);
      });

      it('resumes after a position, without the event at it', async () => {
        await store.append('stream-1', 'no_stream', events(5));
        const stored = await store.read('stream-1');
        const batches = await gather(store, {
          from: stored[1]!.position,
          until: ({ count }) => count === 3,
        });
        expect(batches.flatMap((batch) => batch.events)).toEqual(stored.slice(2));
      });

      it('yields at most one batch at a time, and is caught up only after the last', async () => {
        await store.append('stream-1', 'no_stream', events(10));
        const batches = await gather(store, {
          from: start,
          batchSize: 3,
          until: ({ last, count }) => last.caughtUp && count === 10,
        });
        expect(Math.max(...batches.map((batch) => batch.events.length))).toBeLessThanOrEqual(3);
        let given = 0;
        for (const batch of batches) {
          given += batch.events.length;
          if (batch.caughtUp) expect(given).toBe(10);
        }
      });

      it('yields events that are appended while it waits', async () => {
        const following = gather(store, { from: start, until: ({ count }) => count === 20 });
        for (let i = 0; i < 20; i += 1) await store.append(`stream-${i}`, 'no_stream', events(1));
        expect(
          (await following).flatMap((batch) => batch.events).map(({ stream }) => stream),
        ).toEqual(numbers(20).map((i) => `stream-${i}`));
      });

      it('yields only the requested streams', async () => {
        for (const stream of ['transfer-1', 'key-1', 'webhook-1', 'transfer-2'])
          await store.append(stream, 'no_stream', events(1));
        const batches = await gather(store, {
          from: start,
          streams: ['key-', 'transfer-'],
          until: ({ count }) => count === 3,
        });
        expect(batches.flatMap((batch) => batch.events).map(({ stream }) => stream)).toEqual([
          'transfer-1',
          'key-1',
          'transfer-2',
        ]);
      });

      const leavesOf = (stored: StoredEvent[]) =>
        stored.map((each) => Buffer.from(each.leaf_hash ?? hashOfLeaf(each)).toString('hex'));

      it('gives readers of leaves or data what they need, and the content of the log itself', async () => {
        const data = {
          'ä\n"\\\u001e': [1e21, 1 / 3, '\u2028\u007f😀', { '10': true, '9': null }],
          ...(JSON.parse('{"__proto__":{"polluted":true}}') as object),
        };
        const read = async (count: number, only?: 'data' | 'leaves') => {
          const until: Until = (gathered) => gathered.count === count;
          const batches = await gather(store, { from: start, until, only });
          return batches.flatMap((batch) => batch.events);
        };
        await store.append('transfer-1', 'no_stream', [{ ...event(), data }, ...events(2)]);
        await store.append('log-keys', 'no_stream', [{ ...event(), data }]);
        const leaves = await read(4, 'leaves');
        const all = await read(4);
        expect(leavesOf(leaves)).toEqual(leavesOf(all));
        expect(leaves.at(-1)).toMatchObject({ stream: 'log-keys', data });
        const datas = await read(4, 'data');
        expect(datas.map(({ metadata: _, ...event }) => event)).toEqual(
          all.map(({ metadata: _, ...event }) => event),
        );
        expect(datas.at(-1)).toEqual(all.at(-1));
        // A name that JSON escapes.
        await store.append('transfer-"2"', 'no_stream', [event()]);
        expect(leavesOf(await read(5, 'leaves'))).toEqual(leavesOf(await read(5)));
      });

      it('gives the leaves of events that this process appends', async () => {
        let gathered = 0;
        const live = gather(store, {
          from: start,
          only: 'leaves',
          until({ count }) {
            gathered = count;
            return count === 6;
          },
        });
        const data = { z: 'ä\n"\\', a: [1e21, { '10': true, '9': null }] };
        // One after the other: a subscription that is behind reads from the log.
        for (const i of numbers(6)) {
          await store.append(`transfer-"${i}"`, 'no_stream', [{ ...event(), data }]);
          await vi.waitFor(() => expect(gathered).toBe(i + 1), 5_000);
        }
        const batches = await gather(store, { from: start, until: ({ count }) => count === 6 });
        expect(leavesOf((await live).flatMap((batch) => batch.events))).toEqual(
          leavesOf(batches.flatMap((batch) => batch.events)),
        );
      });

      it.each([undefined, 'leaves'] as const)(
        'delivers the events before it reports their position (only %s)',
        async (only) => {
          const total = 300;
          const writing = writeAll(store, stranger, total);
          const given: StoredEvent[] = [];
          let checkpoint = start;
          while (given.length < total) {
            // Stores the position as a consumer does, ends after a few batches, and resumes there.
            const batches: EventBatch[] = await gather(store, {
              from: checkpoint,
              only,
              batchSize: 7,
              pauseMs: 2,
              until: ({ batches: so, count }) => so.length === 5 || given.length + count === total,
            });
            // Without this, the loop would block the process once the test has timed out.
            if (batches.length === 0) throw new Error('the store was closed');
            for (const batch of batches) {
              given.push(...batch.events);
              checkpoint = batch.position;
            }
          }
          await writing;
          const all = await gather(store, { from: start, until: ({ count }) => count === total });
          expect(given.map(({ id }) => id)).toEqual(
            all.flatMap((batch) => batch.events).map(({ id }) => id),
          );
        },
      );

      it('yields the same order to all subscribers, with several writers', async () => {
        const until: Until = ({ count }) => count === 200;
        const early = gather(store, { from: start, until });
        const slow = gather(store, { from: start, until, batchSize: 10, pauseMs: 5 });
        await Promise.all(numbers(20).map((writer) => appendMany(store, `stream-${writer}`, 10)));
        const orders = await Promise.all([early, slow, gather(store, { from: start, until })]);
        const [first, ...others] = orders.map((batches) =>
          batches.flatMap((batch) => batch.events).map(({ id }) => id),
        );
        for (const other of others) expect(other).toEqual(first);
        expect(new Set(first).size).toBe(200);
      });

      it('keeps installations apart', async () => {
        const both = await engine.open(prefix);
        await stranger.append('stream-1', 'no_stream', events(3));
        await store.append('stream-1', 'no_stream', events(1));
        await stranger.append('stream-2', 'no_stream', events(1));
        await both.append('stream-2', 'no_stream', events(1));
        const batches = await gather(store, {
          from: start,
          until: ({ count, last }) => count >= 2 && last.caughtUp,
        });
        expect(
          batches
            .flatMap((batch) => batch.events)
            .map(({ stream, revision }) => [stream, revision]),
        ).toEqual([
          ['stream-1', 0],
          ['stream-2', 0],
        ]);
      });

      it('returns when the signal aborts, at any time', async () => {
        await store.append('stream-1', 'no_stream', events(10));
        expect(
          await gather(store, { from: start, signal: AbortSignal.abort(), until: () => false }),
        ).toEqual([]);
        const waiting = new AbortController();
        const untilIdle: Until = ({ last }) => {
          if (last.caughtUp) setTimeout(() => waiting.abort(), 20);
          return false;
        };
        const idle = await gather(store, { from: start, signal: waiting.signal, until: untilIdle });
        expect(idle.flatMap((batch) => batch.events)).toHaveLength(10);
        expect(
          await gather(store, {
            from: start,
            batchSize: 2,
            until: ({ batches }) => batches.length === 2,
          }),
        ).toHaveLength(2);
      });

      it('resumes where it was after its connection was lost', async (context) => {
        if (!engine.drop) return context.skip('this engine cannot cut its connections');
        const following = gather(store, { from: start, until: ({ count }) => count === 30 });
        for (const third of numbers(3)) {
          await appendMany(store, `stream-${third}`, 10);
          await engine.drop();
        }
        const given = (await following).flatMap((batch) => batch.events);
        expect(given.map(({ stream, revision }) => `${stream}@${revision}`)).toEqual(
          numbers(30).map((i) => `stream-${Math.floor(i / 10)}@${i % 10}`),
        );
      });

      it('loses and repeats no append when connections are cut', async (context) => {
        if (!engine.drop) return context.skip('this engine cannot cut its connections');
        const { drop } = engine;
        let [writing, acknowledged] = [true, 0];
        const append: EventStore['append'] = async (...call) => {
          const result = await store.append(...call);
          acknowledged += 1;
          return result;
        };
        const write = () =>
          Promise.all(
            numbers(16).map((writer) => appendMany({ ...store, append }, `stream-${writer}`, 25)),
          ).finally(() => {
            writing = false;
          });
        // A machine may be too slow to append anything between two cuts at fixed times.
        const cut = async () => {
          for (let before = -1; writing; await sleep(100)) {
            if (acknowledged === before) continue;
            before = acknowledged;
            await drop();
          }
        };
        await Promise.all([write(), cut()]);
        const streams = await Promise.all(
          numbers(16).map((writer) => store.read(`stream-${writer}`)),
        );
        for (const stream of streams)
          expect(stream.map(({ revision }) => revision)).toEqual(numbers(25));
      });
    });

    describe('under concurrent writers', () => {
      it('accepts exactly one of two appends at the same revision', async () => {
        const rivals = await Promise.allSettled(
          numbers(20).map(() => store.append('stream-1', 'no_stream', events(1))),
        );
        expect(rivals.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
        for (const rival of rivals)
          if (rival.status === 'rejected') expect(rival.reason).toMatchObject({ actual: 0 });
      });

      it('keeps every append of 40 writers that compete for one stream', async () => {
        const revisions = await Promise.all(
          numbers(40).map(() => appendWithRetry(store, 'stream-1')),
        );
        expect(revisions.toSorted((a, b) => a - b)).toEqual(numbers(40));
        expect((await store.read('stream-1')).map(({ revision }) => revision)).toEqual(numbers(40));
      });

      it('keeps every append of 100 writers on 100 streams', async () => {
        await Promise.all(numbers(100).map((writer) => appendMany(store, `stream-${writer}`, 3)));
        const batches = await gather(store, { from: start, until: ({ count }) => count === 300 });
        const positions = batches.flatMap((batch) => batch.events).map(({ position }) => position);
        expect(positions).toEqual(positions.toSorted((a, b) => (a < b ? -1 : 1)));
        expect(new Set(positions).size).toBe(300);
      });
    });

    describe('log id', () => {
      it('is created once and is the same for every process that opens the log', async () => {
        const second = await engine.open(prefix);
        const ids = await Promise.all([openLog(store), openLog(second), openLog(store)]);
        expect(new Set([...ids, await openLog(second)]).size).toBe(1);
        expect(await store.read('log')).toMatchObject([
          {
            type: 'log.opened',
            data: { log_id: ids[0] },
            metadata: { actor: 'system', account_id: null, prev_hash: null },
          },
        ]);
      });

      it('differs between logs', async () => {
        expect(await openLog(store)).not.toBe(await openLog(stranger));
      });

      it('is rejected if the stream begins with another event', async () => {
        await store.append('log', 'no_stream', events(1));
        await expect(openLog(store)).rejects.toThrow('not with log.opened');
      });
    });
  });
}

type Until = GatherOptions['until'];

function newPrefix(): string {
  return `test_${randomBytes(6).toString('hex')}_`;
}

async function appendMany(store: EventStore, stream: string, count: number): Promise<void> {
  for (const revision of numbers(count))
    await store.append(stream, revision === 0 ? 'no_stream' : revision - 1, events(1));
}

/**
 * Appends `total` events with one store over ten streams, with events of another store in between.
 */
async function writeAll(store: EventStore, stranger: EventStore, total: number): Promise<void> {
  await Promise.all(
    numbers(10).map(async (writer) => {
      await appendMany(store, `stream-${writer}`, total / 20);
      await stranger.append(`stream-${writer}`, 'no_stream', events(20));
      const rest = numbers(total / 20).map(() => event());
      await store.append(`stream-${writer}`, total / 20 - 1, rest);
    }),
  );
}
