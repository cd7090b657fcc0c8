import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { ulidToUUID } from 'ulid';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb.ts';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { type FakeEventStoreDb, type FakeOptions, startFakeEventStoreDb } from '../../support/fake-eventstoredb.ts';
import { describeEventStore, type Engine } from './contract.ts';
import { event, events, gather, numbers } from './events.ts';

async function startEngine(options?: FakeOptions): Promise<Engine> {
  const server = await startFakeEventStoreDb(options);
  const stores: EventStore[] = [];
  return {
    async open(prefix) {
      const store = createEventStoreDb({ url: server.url, prefix });
      stores.push(store);
      return store;
    },
    drop: server.disconnect,
    async close() {
      await Promise.all(stores.map((store) => store.close()));
      server.close();
    },
  };
}

describeEventStore('EventStoreDB in memory', () => startEngine());
describeEventStore('EventStoreDB in memory, with a checkpoint at every third record', () => startEngine({ checkpointEvery: 3 }));
describeEventStore('EventStoreDB in memory, without batch appends', () => startEngine({ batchAppend: false }));

describe('EventStoreDB that fails', () => {
  let server: FakeEventStoreDb;
  let store: EventStore;

  beforeEach(async () => {
    server = await startFakeEventStoreDb();
    store = createEventStoreDb({ url: server.url, prefix: 'waybill_', timeouts: { attempt: 250, total: 5_000 } });
  });
  afterEach(async () => {
    await store.close();
    server.close();
  });

  const stored = () => server.log.stream('waybill_stream-1')?.map(({ id }) => id);
  const uuids = (made: { id: string }[]) => made.map(({ id }) => ulidToUUID(id.slice('evt_'.length)).toLowerCase());
  /** A store that gives up before the server comes back. */
  const impatient = () => createEventStoreDb({ url: server.url, prefix: 'waybill_', timeouts: { attempt: 100, total: 300 } });

  describe('append', () => {
    it('repeats an append whose answer was lost, with the same ids', async () => {
      const made = events(2);
      server.loseReplies(2);
      expect(await store.append('stream-1', 'no_stream', made)).toEqual({ revision: 1, position: server.log.records[1]?.position });
      expect(server.counts.appends).toBe(3);
      expect(stored()).toEqual(uuids(made));
    });

    it('does not let one lost answer fail the appends beside it', async () => {
      server.loseReplies(1);
      await Promise.all(numbers(100).map((i) => store.append(`stream-${i}`, 'no_stream', events(1))));
      expect(server.log.records).toHaveLength(100);
    });

    it('goes on while the server drops repetitions of an append that it is still at work on', async () => {
      const release = server.holdReplies();
      const appending = store.append('stream-1', 'no_stream', events(1));
      await vi.waitUntil(() => server.counts.appends >= 3, { timeout: 5_000 });
      release();
      expect(await appending).toMatchObject({ revision: 0 });
      expect(stored()).toHaveLength(1);
    });

    it('waits for a node that has only just started', async () => {
      server.refuse(3);
      expect(await store.append('stream-1', 'no_stream', events(1))).toMatchObject({ revision: 0 });
    });

    it('repeats what was in flight when the append stream died', async () => {
      const release = server.holdReplies();
      const appending = Promise.all(numbers(40).map((i) => store.append(`stream-${i}`, 'no_stream', events(1))));
      await vi.waitUntil(() => server.counts.appends >= 10);
      release();
      server.killAppendBatches();
      await appending;
      expect(server.log.records).toHaveLength(40);
    });

    it.each([
      ['and dies', () => server.disconnect()],
      ['and stays', async () => undefined],
    ])('gets past an append stream that takes nothing more %s', async (_, end) => {
      await store.append('stream-1', 'no_stream', events(1));
      server.stall();
      const big = () => ({ ...event(), data: { text: 'x'.repeat(100_000) } });
      const appending = Promise.all(numbers(60).map((i) => store.append(`big-${i}`, 'no_stream', [big()])));
      await end();
      await appending;
      expect(server.log.records).toHaveLength(61);
    });

    it('refuses more than the server takes at once, without trying again', async () => {
      const data = { text: 'x'.repeat(1024 * 1024) };
      const refused = await store.append('stream-1', 'no_stream', [{ ...event(), data }]).catch((error: unknown) => error);
      expect(refused).toMatchObject({ type: 'maximum-append-size-exceeded' });
      expect(server.counts.appends).toBe(1);
    });
  });

  it.each([
    ['hangs', () => server.hang(true), () => server.hang(false)],
    ['is down', () => server.stop(), () => server.start()],
  ] as const)('says that it is unavailable where the server %s, and works again afterwards', async (_, breakIt, mend) => {
    const first = await store.append('stream-1', 'no_stream', events(1));
    const hasty = impatient();
    const made = events(1);
    breakIt();
    const calls = [() => hasty.append('stream-1', 0, made), () => hasty.read('stream-1'), () => hasty.head()];
    for (const call of calls) await expect(call()).rejects.toBeInstanceOf(EventStoreUnavailable);
    await mend();
    await hasty.close();
    expect(await store.read('stream-1')).toHaveLength(1);
    expect(await store.head()).toBe(first.position);
    expect(await store.append('stream-1', 0, made)).toMatchObject({ revision: 1 });
  });

  it('ends what is under way when it is closed', async () => {
    const other = createEventStoreDb({ url: server.url, prefix: 'other_' });
    const following = gather(store, { from: null, until: () => false });
    await vi.waitUntil(() => server.subscriptions() === 1);
    server.hang(true);
    const appending = store.append('stream-1', 'no_stream', events(1));
    const refused = expect(appending).rejects.toBeInstanceOf(EventStoreUnavailable);
    await store.close();
    await following;
    await refused;
    server.hang(false);
    expect(await other.append('stream-1', 'no_stream', events(1))).toMatchObject({ revision: 0 });
    await other.close();
  });

  it('holds a process to one server at a time', async () => {
    const second = await startFakeEventStoreDb();
    expect(() => createEventStoreDb({ url: second.url, prefix: 'waybill_' })).toThrow('One process');
    await store.close();
    const moved = createEventStoreDb({ url: second.url, prefix: 'waybill_' });
    expect(await moved.append('stream-1', 'no_stream', events(1))).toMatchObject({ revision: 0 });
    await moved.close();
    second.close();
  });

  describe('subscribe', () => {
    it.each([
      ['ends without an error', () => server.endSubscriptions()],
      ['fails', () => server.failSubscriptions(status.UNAVAILABLE)],
    ])('goes on where it was when the subscription %s', async (_, drop) => {
      const following = gather(store, { from: null, until: ({ count }) => count === 3 });
      for (const i of numbers(3)) {
        await vi.waitUntil(() => server.subscriptions() === 1, { timeout: 5_000 });
        await store.append(`stream-${i}`, 'no_stream', events(1));
        drop();
      }
      expect((await following).flatMap((batch) => batch.events).map(({ stream }) => stream)).toEqual(numbers(3).map((i) => `stream-${i}`));
    });

    it('throws what no new attempt can mend', async () => {
      await store.append('stream-1', 'no_stream', events(1));
      const midRecord = (server.log.records[0]?.position ?? 0n) - 1n;
      await expect(gather(store, { from: midRecord, until: () => false })).rejects.toThrow('Invalid position');
      const following = gather(store, { from: null, until: () => false });
      const refused = expect(following).rejects.toMatchObject({ type: 'access-denied' });
      await vi.waitUntil(() => server.subscriptions() === 1);
      server.failSubscriptions(status.UNAUTHENTICATED);
      await refused;
    });

    it('leaves no call open, however the consumer stops', async () => {
      await store.append('stream-1', 'no_stream', events(3));
      await gather(store, { from: null, until: ({ count }) => count === 3 });
      for await (const batch of store.subscribe({ from: null, signal: new AbortController().signal })) if (batch.events.length > 0) break;
      const throwing = gather(store, {
        from: null,
        until() {
          throw new Error('The consumer failed');
        },
      });
      await expect(throwing).rejects.toThrow('The consumer failed');
      await vi.waitUntil(() => server.subscriptions() === 0);
    });

    it('reads no further ahead than a batch and what is on the way', async () => {
      const data = { text: 'x'.repeat(2_000) };
      for (const i of numbers(20))
        await store.append(
          `stream-${i}`,
          'no_stream',
          numbers(200).map(() => ({ ...event(), data })),
        );
      await gather(store, { from: null, batchSize: 10, pauseMs: 500, until: () => true });
      expect(server.counts.eventsSent).toBeGreaterThan(0);
      expect(server.counts.eventsSent).toBeLessThan(400);
    });

    it('skips what is not its own, and moves its position past it', async () => {
      const own = await store.append('stream-1', 'no_stream', events(1));
      const bytes = (text: string) => Buffer.from(text);
      const foreign = { id: crypto.randomUUID(), contentType: 'application/json', data: bytes('{}'), metadata: bytes('') };
      server.log.append('waybill_stream-1', 0n, [{ ...foreign, type: 'from-elsewhere' }]);
      server.log.append('waybill_stream-2', -1n, [{ ...foreign, type: '$>', metadata: bytes('{}') }]);
      server.log.append('waybill_stream-3', -1n, [{ ...foreign, type: 'binary', contentType: 'application/octet-stream' }]);
      server.log.append('waybill_stream-4', -1n, [{ ...foreign, type: 'not-json', data: bytes('{'), metadata: bytes('[') }]);
      server.log.tombstone('waybill_stream-5');
      const end = server.log.records.at(-1)?.position;
      const batches = await gather(store, { from: null, until: ({ last }) => last.position === end });
      expect(batches.flatMap((batch) => batch.events).map(({ position }) => position)).toEqual([own.position]);
      expect(await store.read('stream-1')).toHaveLength(1);
    });

    it('keeps up with a log in which nothing is its own, so that a restart need not read it again', async () => {
      const stranger = createEventStoreDb({ url: server.url, prefix: 'other_' });
      const own = await store.append('stream-1', 'no_stream', events(1));
      for (const i of numbers(15)) await stranger.append(`stream-${i}`, 'no_stream', events(100));
      await stranger.close();
      const batches = await gather(store, { from: null, until: ({ last }) => last.position > own.position });
      expect(batches.at(-1)?.position).toBe(server.log.records[1_023]?.position);
    });

    it('gives nothing again from a log that is shorter than its position', async () => {
      await store.append('stream-1', 'no_stream', events(1));
      const beyond = (await store.head())! + 100_000n;
      const batches = await gather(store, { from: beyond, until: ({ last }) => last.caughtUp });
      expect(batches).toEqual([{ events: [], position: beyond, caughtUp: true }]);
    });
  });
});

describe('EventStoreDB in a cluster that is down for a while', () => {
  it('is discovered again by appends and subscriptions alike', async () => {
    const server = await startFakeEventStoreDb();
    const store = openStore(server, server.clusterUrl);
    const following = numbers(5).map(() => gather(store, { from: null, until: ({ count }) => count === 60 }));
    const write = async (writer: number) => {
      for (const i of numbers(3)) {
        await store.append(`stream-${writer}`, i === 0 ? 'no_stream' : i - 1, events(1));
        await sleep(100);
      }
    };
    const writing = Promise.all(numbers(20).map(write));
    for (const pause of [50, 120, 300]) {
      await sleep(pause);
      server.stop();
      await sleep(pause);
      await server.start();
    }
    await writing;
    for (const batches of await Promise.all(following)) expect(batches.flatMap((batch) => batch.events)).toHaveLength(60);
  });
});

describe('EventStoreDB that sends many marks', () => {
  it.each([1, 2, 3, 7])('holds a checkpoint at every record of %d back behind the events that came before it', async (checkpointEvery) => {
    const server = await startFakeEventStoreDb({ checkpointEvery });
    const store = openStore(server, server.url);
    const total = 400;
    for (const i of numbers(total / 20)) await store.append(`stream-${i}`, 'no_stream', events(20));
    for (const batchSize of [1, 5, 16, 100]) {
      const batches = await gather(store, { from: null, batchSize, pauseMs: 1, until: ({ count }) => count === total });
      for (const [i, batch] of batches.entries()) {
        const next = batches.slice(i + 1).find(({ events }) => events.length > 0)?.events[0];
        if (next) expect(batch.position).toBeLessThan(next.position);
        if (next) expect(batch.caughtUp).toBe(false);
      }
    }
  });
});

/** A store that is closed after the test, and the server with it. */
function openStore(server: FakeEventStoreDb, url: string): EventStore {
  const store = createEventStoreDb({ url, prefix: 'waybill_' });
  onTestFinished(async () => {
    await store.close();
    server.close();
  });
  return store;
}
