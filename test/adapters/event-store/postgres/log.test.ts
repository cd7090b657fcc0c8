import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import { openLog } from '../../../../src/adapters/event-store/log-id.ts';
import {
  type Condition,
  ConditionFailed,
  type EventStore,
  EventStoreUnavailable,
  type PositionFault,
  RevisionConflict,
} from '../../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../../src/adapters/event-store/postgres/log.ts';
import { connect, type Sql } from '../../../../src/adapters/postgres/connect.ts';
import type { NewEvent } from '../../../../src/domain/events/event.ts';
import { eventHash } from '../../../../src/domain/events/event-hash.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { loseEventsAfter } from '../../../support/postgres/lose-events.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../../support/postgres/test-database.ts';
import { LONG } from '../../../support/run/long.ts';
import { describeEventStore, type Engine } from '../contract.ts';
import { event } from '../events.ts';

async function startEngine(): Promise<Engine> {
  const { url, sql, drop } = await createTestDatabase();
  const administrator = connect(url, { max: 1 });
  const stores: EventStore[] = [];
  return {
    async open(prefix) {
      const store = createPostgresLog({ sql, prefix });
      stores.push(store);
      return store;
    },
    async drop() {
      await administrator`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`;
    },
    async close() {
      await Promise.all(stores.map((store) => store.close()));
      await administrator.end();
      await drop();
    },
  };
}

const postgres = inject('postgres');
describeEventStore(
  'Postgres',
  startEngine,
  postgres.state === 'ready' ? null : `no Postgres: ${postgres.reason}`,
);

it('rejects all waiting calls at once when Postgres does not answer', async () => {
  const sql = connect('postgres://nobody@127.0.0.1:1/nothing');
  const store = createPostgresLog({ sql, prefix: 'test_' });
  const appends = ['a', 'b', 'c', 'd'].map((stream) =>
    store.append(stream, 'no_stream', [event()]),
  );
  const outcomes = await Promise.allSettled(appends);
  for (const outcome of outcomes)
    expect(outcome).toMatchObject({ reason: expect.any(EventStoreUnavailable) });
  await sql.end();
});

describeWithPostgres('an append with a condition', () => {
  let database: TestDatabase;
  let store: EventStore;
  beforeEach(async () => {
    database = await createTestDatabase();
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
  });
  afterEach(async () => {
    await store.close();
    await database.drop();
  });

  const read: Condition['read'] = (sql) => sql`(select type from log.events where position = 1)`;
  const appendIf = (value: string, stream: string, events: NewEvent[], revision?: number) =>
    store.appendWith!(stream, revision ?? 'no_stream', events, { condition: { value, read } });

  it('appends nothing if the condition does not hold, also because there is nothing', async () => {
    await expect(appendIf('first', 'b', [event()])).rejects.toThrow(ConditionFailed);
    await store.append('a', 'no_stream', [{ ...event(), type: 'first' }]);
    await expect(appendIf('second', 'b', [event()])).rejects.toThrow(ConditionFailed);
    expect(await store.read('b')).toEqual([]);
    expect(await appendIf('first', 'b', [event(), event()])).toEqual({
      revision: 1,
      position: 3n,
      isNew: true,
    });
    await expect(appendIf('second', 'b', [event()], 1)).rejects.toThrow(ConditionFailed);
  });

  it('reports a conflict as one, whether the condition holds or not', async () => {
    await store.append('a', 'no_stream', [{ ...event(), type: 'first' }]);
    for (const value of ['first', 'second'])
      await expect(appendIf(value, 'a', [event()])).rejects.toThrow(RevisionConflict);
  });

  it('is repeated safely when the condition no longer holds', async () => {
    await store.append('a', 'no_stream', [{ ...event(), type: 'first' }]);
    const events = [event(), event()];
    const { revision, position } = await appendIf('first', 'b', events);
    const again = await appendIf('second', 'b', events);
    expect(again).toEqual({ revision, position, isNew: false });
  });

  it('does not fail the appends that share its call', async () => {
    await store.append('a', 'no_stream', [{ ...event(), type: 'first' }]);
    const outcomes = await Promise.allSettled([
      store.append('alone', 'no_stream', [event()]),
      appendIf('second', 'b', [event()]),
      store.append('c', 'no_stream', [event()]),
      appendIf('first', 'd', [event()]),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ]);
  });
});

describeWithPostgres('an append after a failover that lost events', () => {
  let database: TestDatabase;
  let store: EventStore;
  beforeEach(async () => {
    database = await createTestDatabase();
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
  });
  afterEach(async () => {
    await store.close();
    await database.drop();
  });

  /** Returns events that continue the chain after `last`. */
  const after = (last: NewEvent): NewEvent[] => {
    const next = event();
    return [{ ...next, metadata: { ...next.metadata, prev_hash: eventHash(last) } }];
  };

  it('is rejected if another event took the revision that its writer saw', async () => {
    const first = event();
    const { position } = await store.append('a', 'no_stream', [first]);
    const [lost] = after(first) as [NewEvent];
    await store.append('a', 0, [lost]);
    await loseEventsAfter(database.sql, position);
    const [other] = after(first) as [NewEvent];
    await store.append('a', 0, [other]);

    const condition: Condition = { value: '1', read: (sql) => sql`'1'` };
    for (const options of [{}, { condition }])
      await expect(store.appendWith!('a', 1, after(lost), options)).rejects.toMatchObject({
        name: 'RevisionConflict',
        expected: 1,
        actual: null,
      });
    expect((await store.read('a')).map(({ id }) => id)).toEqual([first.id, other.id]);
    await store.append('a', 1, after(other));
  });

  it('is rejected if that event has the same id, by another cause', async () => {
    const lost = event();
    await store.append('a', 'no_stream', [lost]);
    await loseEventsAfter(database.sql, 0n);
    const again = { ...lost, metadata: { ...lost.metadata, actor: 'cli:ann' } };
    await store.append('a', 'no_stream', [again]);
    await expect(store.append('a', 0, after(lost))).rejects.toThrow(RevisionConflict);
  });

  it('does not fail the appends that share its call', async () => {
    const last = event();
    await store.append('a', 'no_stream', [event()]);
    await store.append('b', 'no_stream', [last]);
    const outcomes = await Promise.allSettled([
      store.append('c', 'no_stream', [event()]),
      store.append('a', 0, after(last)),
      store.append('b', 0, after(last)),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });

  it('compares events with texts that JSON escapes and that are not ASCII', async () => {
    const last = { ...event(), data: { name: 'ä\u{1f600}\n"\\' } };
    await store.append('a', 'no_stream', [last]);
    await store.append('a', 0, after(last));
  });

  it('is taken if a copy brings a chain that was broken before', async () => {
    const copy = createPostgresLog({ sql: database.sql, prefix: 'test_', isCopy: true });
    await copy.append('a', 'no_stream', [event()]);
    await copy.append('a', 0, after(event()));
    await copy.close();
  });
});

describeWithPostgres('a log with an event that Waybill did not write', () => {
  it('is not read past a column with a record separator', async () => {
    const database = await createTestDatabase();
    const store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    await store.append('a', 'no_stream', [event()]);
    await database.sql`
      insert into log.events (position, stream, revision, id, type, schema_version, data, metadata)
      select 2, stream, 1, id, type || chr(30) || type, schema_version, data, metadata
        from log.events`;
    await database.sql`update log.head set position = 2`;
    const { signal } = new AbortController();
    const batches = store.subscribe({ from: null, signal })[Symbol.asyncIterator]();
    await expect(batches.next()).rejects.toThrow('positions 1 and 2 has a record separator');
    await store.close();
    await database.drop();
  });

  it.each([
    ['data', '{', 'its data is no JSON'],
    ['metadata', '[', 'its metadata is no JSON object'],
    ['metadata', 'null', 'its metadata is no JSON object'],
  ])('names the event whose %s is %s', async (column, text, problem) => {
    const database = await createTestDatabase();
    const store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    const changed = event();
    await store.append('a', 'no_stream', [event(), changed]);
    await database.sql.begin(async (tx) => {
      await tx`alter table log.events disable trigger user`;
      await tx`update log.events set ${tx({ [column]: text })} where position = 2`;
    });
    const { signal } = new AbortController();
    const batches = store.subscribe({ from: null, signal })[Symbol.asyncIterator]();
    const named = `a revision 1 (${changed.id}) at position 2 was changed: ${problem}. Keep the log`;
    await expect(batches.next()).rejects.toThrow(named);
    await expect(store.read('a')).rejects.toThrow(named);
    await store.close();
    await database.drop();
  });

  it('names the positions of events that no reader sees', async () => {
    const database = await createTestDatabase();
    const store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    for (const stream of ['a', 'b', 'c', 'd', 'e'])
      await store.append(stream, 'no_stream', [event()]);
    await database.sql.begin(async (tx) => {
      await tx`alter table log.events disable trigger user`;
      await tx`update log.events set position = -4 where position = 4`;
      await tx`update log.events set stream = 'other_' || stream where position in (2, 3)`;
      await tx`update log.events set position = 9 where position = 5`;
    });
    const faults: PositionFault[] = [];
    for await (const fault of store.findPositionFaults?.() ?? []) faults.push(fault);
    expect(faults).toEqual([
      { from: -4n, to: -4n, problem: 'before_start' },
      { from: 4n, to: 5n, problem: 'missing' },
      { from: 9n, to: 9n, problem: 'beyond_head' },
      { from: 2n, to: 3n, problem: 'other_prefix' },
    ]);
    await store.close();
    await database.drop();
  });

  it('is not opened as a new log if its first event was removed', async () => {
    const database = await createTestDatabase();
    const store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    await openLog(store);
    await store.append('a', 'no_stream', [event()]);
    await database.sql.begin(async (tx) => {
      await tx`alter table log.events disable trigger user`;
      await tx`delete from log.events where position = 1`;
    });
    await expect(openLog(store)).rejects.toThrow(
      /^The log begins with a revision 0 .* was removed/,
    );
    expect(await store.head()).toBe(2n);
    const stranger = createPostgresLog({ sql: database.sql, prefix: 'other_' });
    await openLog(stranger);
    for (const log of [store, stranger]) await log.close();
    await database.drop();
  });
});

describeWithPostgres('a log with few events of a stream', () => {
  it('is read in steps, each of which says how far it has come', async () => {
    const database = await createTestDatabase();
    const store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    await store.append('rare-1', 'no_stream', [event()]);
    await database.sql`update log.head set position = 350000`;
    const last = await store.append('rare-2', 'no_stream', [event()]);
    expect(last.position).toBe(350_001n);

    const { signal } = new AbortController();
    const steps: [string[], bigint, boolean][] = [];
    for await (const batch of store.subscribe({ from: null, signal, streams: ['rare-'] })) {
      const { events, position, caughtUp } = batch;
      steps.push([events.map(({ stream }) => stream), position, caughtUp]);
      if (caughtUp) break;
    }
    expect(steps).toEqual([
      [['rare-1'], 100_000n, false],
      [[], 200_000n, false],
      [[], 300_000n, false],
      [['rare-2'], 350_001n, true],
    ]);
    await store.close();
    await database.drop();
  });
});

describeWithPostgres('a log on a connection that goes silent', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let sql: Sql;
  let store: EventStore;
  beforeEach(async () => {
    database = await createTestDatabase();
    const url = new URL(database.url);
    proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    url.host = `${proxy.host}:${proxy.port}`;
    sql = connect(url.href);
    store = createPostgresLog({ sql, prefix: 'test_' });
    await store.append('a', 'no_stream', [event()]);
  });
  afterEach(async () => {
    await proxy?.close();
    await sql?.end({ timeout: 0 });
    await database?.drop();
  });

  it.each(['up', 'down'] as const)(
    'continues on another connection, and appends once whatever arrives late: %s',
    LONG,
    async (direction) => {
      const held = proxy.holdWhen(() => true, direction);
      expect(await store.append('a', 0, [event()])).toMatchObject({ revision: 1 });
      void (await held)();
      // Waits for the bytes that were held back.
      await sql.end();
      expect(await database.sql`select from log.events`).toHaveLength(2);
    },
  );

  it('reports that it is unavailable, and recognizes a repeated append', LONG, async () => {
    const appended = event();
    proxy.stall(true);
    const calls = await Promise.allSettled([
      store.append('a', 0, [appended]),
      store.read('a'),
      store.head(),
    ]);
    for (const call of calls)
      expect(call).toMatchObject({ reason: expect.any(EventStoreUnavailable) });
    proxy.stall(false);
    expect(await store.append('a', 0, [appended])).toMatchObject({ revision: 1 });
    expect(await store.read('a')).toHaveLength(2);
  });
});
