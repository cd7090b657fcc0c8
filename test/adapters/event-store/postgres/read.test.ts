import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { EventBatch, EventStore } from '../../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../../src/adapters/event-store/postgres/log.ts';
import { createReader } from '../../../../src/adapters/event-store/postgres/read.ts';
import type { Sql } from '../../../../src/adapters/postgres/connect.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../../support/postgres/test-database.ts';
import { event, events } from '../events.ts';

describeWithPostgres('a reader of the log', () => {
  let database: TestDatabase;
  let store: EventStore;

  beforeEach(async () => {
    database = await createTestDatabase();
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    await store.append('transfer-1', 'no_stream', events(5));
  });

  afterEach(async () => {
    await store.close();
    await database.drop();
  });

  it('makes the next batch ahead for a caller who goes on, and for no other', async () => {
    const { sql, batches } = counting(database.sql);
    const read = readerOf(sql);
    await read(0n);
    expect(batches()).toBe(1);
    await read(0n);
    expect(batches()).toBe(2);
    await read(2n);
    expect(batches()).toBe(4);
    await read(4n);
    expect(batches()).toBe(5);
  });

  it('shows what the log has got since the next batch was made', async () => {
    const read = readerOf(database.sql);
    expect(inShort(await read(0n))).toEqual([[1n, 2n], 2n, false]);
    expect(inShort(await read(2n))).toEqual([[3n, 4n], 4n, false]);
    await sleep(100);
    await store.append('transfer-1', 4, events(2));
    expect(inShort(await read(4n))).toEqual([[5n, 6n], 6n, false]);
    expect(inShort(await read(6n))).toEqual([[7n], 7n, true]);
  });

  it('does not report the end of the log while the log goes on', async () => {
    const read = readerOf(database.sql);
    await read(0n);
    await read(2n);
    await sleep(100);
    await store.append('endpoint-1', 'no_stream', [event()]);
    await store.append('transfer-1', 4, [event()]);
    expect(inShort(await read(4n))).toEqual([[5n, 7n], 7n, false]);
  });

  it('reads from another position than the next', async () => {
    const read = readerOf(database.sql);
    await read(0n);
    await read(2n);
    expect(inShort(await read(1n))).toEqual([[2n, 3n], 3n, false]);
  });

  it('throws the error of the next batch when that is wanted, and reads it again', async () => {
    const { sql } = counting(database.sql, 3);
    const read = readerOf(sql);
    await read(0n);
    expect(inShort(await read(2n))).toEqual([[3n, 4n], 4n, false]);
    // Without a handler, the error would end the process here.
    await sleep(100);
    await expect(read(4n)).rejects.toThrow('the connection is lost');
    expect(inShort(await read(4n))).toEqual([[5n], 5n, true]);
  });
});

function readerOf(sql: Sql) {
  return createReader(sql, 'test_', {
    limit: 2,
    names: ['test_transfer-'],
    only: undefined,
    keepsUnreadable: false,
  });
}

function inShort({ events, position, caughtUp }: EventBatch) {
  return [events.map((stored) => stored.position), position, caughtUp];
}

/** Counts the statements for batches, which ask for raw rows. The one with this number fails. */
function counting(sql: Sql, failing = 0) {
  let batches = 0;
  const counted = new Proxy(sql, {
    apply(target, self, given) {
      const query = Reflect.apply(target as never, self, given) as { raw(): unknown };
      if (!('raw' in query)) return query;
      const raw = query.raw.bind(query);
      query.raw = () =>
        ++batches === failing ? Promise.reject(new Error('the connection is lost')) : raw();
      return query;
    },
  });
  return { sql: counted, batches: () => batches };
}
