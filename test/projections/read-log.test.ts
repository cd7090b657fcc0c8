import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createEventStoreDb } from '../../src/adapters/event-store/eventstoredb/log.ts';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import {
  type LogSlice,
  readLog,
  readLogFrom,
  revisionAfter,
} from '../../src/projections/read-log.ts';
import { event } from '../adapters/event-store/events.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../support/event-store/fake/server.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

const STREAM = 'log-checkpoints';
const LENGTH = 250;

describeWithPostgres('a slice of the log', () => {
  let database: TestDatabase;
  let store: EventStore;
  /** Of each event of the stream. Another event follows each. */
  let positions: bigint[];
  beforeAll(async () => {
    database = await createTestDatabase();
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    positions = [];
    for (let revision = 0; revision < LENGTH; revision++) {
      const expected = revision === 0 ? 'no_stream' : revision - 1;
      const { position } = await store.append(STREAM, expected, [event()]);
      positions.push(position as bigint);
      await store.append(`other-${revision}`, 'no_stream', [event()]);
    }
  });
  afterAll(async () => {
    await store?.close();
    await database?.drop();
  });

  async function revisionsOf(slice: LogSlice): Promise<number[]> {
    const revisions: number[] = [];
    for await (const { events } of readLog(store, slice))
      for (const { stream, revision } of events) {
        expect(stream).toBe(STREAM);
        revisions.push(revision);
      }
    return revisions;
  }

  it('ends with its last position, even if the batch that was read has later events', async () => {
    const until = positions[120] as bigint;
    const slice = { from: positions[119] as bigint, until };
    const batches: [number, bigint][] = [];
    for await (const { events, position } of readLog(store, slice))
      batches.push([events.length, position]);
    expect(batches).toEqual([[2, until]]);
  });

  it('of one stream has all of its events in order, however many there are', async () => {
    const all = Array.from({ length: LENGTH }, (_, revision) => revision);
    expect(await revisionsOf({ from: null, stream: STREAM })).toEqual(all);
  });

  it('of one stream begins after a position, and ends with another', async () => {
    const slice = { from: positions[119] as bigint, until: positions[230] as bigint };
    const revisions = await revisionsOf({ ...slice, stream: STREAM });
    expect([revisions[0], revisions.at(-1), revisions.length]).toEqual([120, 230, 111]);
    const between = { from: slice.from + 1n, until: slice.until + 1n };
    expect(await revisionsOf({ ...between, stream: STREAM })).toEqual(revisions);
  });

  it('of one stream is empty after its end, and for a stream that does not exist', async () => {
    expect(await revisionsOf({ from: positions.at(-1) as bigint, stream: STREAM })).toEqual([]);
    expect(await revisionsOf({ from: null, stream: 'log-nothing' })).toEqual([]);
  });

  it('finds each revision of a stream by its position', async () => {
    expect(await revisionAfter(store, STREAM, null)).toBe(0);
    expect(await revisionAfter(store, 'log-nothing', 5n)).toBe(0);
    for (const revision of [0, 1, 2, 3, 7, 8, 127, 128, 200, LENGTH - 1]) {
      const position = positions[revision] as bigint;
      expect(await revisionAfter(store, STREAM, position - 1n)).toBe(revision);
      expect(await revisionAfter(store, STREAM, position)).toBe(revision + 1);
      expect(await revisionAfter(store, STREAM, position + 1n)).toBe(revision + 1);
    }
  });
});

describe('a slice up to an event, while a former leader of an EventStoreDB answers', () => {
  let server: FakeEventStoreDb;
  let store: EventStore;
  /** Of another process. */
  let other: EventStore;
  beforeEach(async () => {
    server = await startFakeEventStoreDb();
    const options = { url: server.url, prefix: 'waybill_', staleMs: 2_000 };
    store = createEventStoreDb(options);
    other = createEventStoreDb(options);
  });
  afterEach(async () => {
    await Promise.all([store.close(), other.close()]);
    server.close();
  });

  /** Returns the streams of a slice of the log that ends with an event that the node lacks. */
  async function read(stream?: string): Promise<string[]> {
    await store.append('any-1', 'no_stream', [event()]);
    server.becomeStale({ subscriptions: true });
    await other.append('any-2', 'no_stream', [event()]);
    const record = event();
    const { position: until } = await store.append('access-1', 'no_stream', [record]);
    const streams: string[] = [];
    const slice = { from: null, until, stream, holds: record.id };
    for await (const { events } of readLogFrom(store, slice))
      streams.push(...events.map(({ stream }) => stream));
    return streams;
  }

  it.each([
    [undefined, ['any-1', 'any-2', 'access-1']],
    ['any-2', ['any-2']],
  ])('is whole once a new leader answers (of the stream %s)', async (stream, expected) => {
    setTimeout(server.lead, 1_000);
    expect(await read(stream)).toEqual(expected);
  });

  it.each([undefined, 'any-2'])('fails if none does (of the stream %s)', async (stream) => {
    await expect(read(stream)).rejects.toThrow(EventStoreUnavailable);
  });
});
