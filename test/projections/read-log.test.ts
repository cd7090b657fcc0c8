import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import { type LogSlice, readLog, revisionAfter } from '../../src/projections/read-log.ts';
import { event } from '../adapters/event-store/events.ts';
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
