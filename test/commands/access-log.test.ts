import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type EventStore,
  EventStoreUnavailable,
  RevisionConflict,
} from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import { type Access, createAccessLog } from '../../src/commands/access-log.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { createChainVerifier } from '../../src/processes/verification/chain.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

const logger = pino({ level: 'silent' });

describeWithPostgres('the access log of a process', () => {
  let database: TestDatabase;
  let store: EventStore;
  let seen = 0n;
  beforeAll(async () => {
    database = await createTestDatabase();
    store = createPostgresLog({ sql: database.sql, prefix: '' });
  });
  afterAll(async () => {
    await store.close();
    await database.drop();
  });

  /** The access of a transfer with this number. */
  const access = (number: number): Access => ({
    event: { type: 'access.history_read', data: { transfer_id: `txr_${number}` } },
    cause: { actor: 'key:key_1', correlationId: 'req_1', clientAddress: '192.0.2.1' },
    accountId: 'acc_default',
  });
  const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);
  const idsOf = (events: StoredEvent[]) =>
    events.map(({ data }) => (data as { transfer_id: string }).transfer_id);

  /** Returns the events since the last call, whose chains must be intact. */
  async function news(): Promise<StoredEvent[]> {
    const done = new AbortController();
    const events: StoredEvent[] = [];
    for await (const batch of store.subscribe({ from: seen, signal: done.signal })) {
      events.push(...batch.events);
      seen = batch.position;
      if (batch.caughtUp) break;
    }
    done.abort();
    const verifier = createChainVerifier();
    expect(events.flatMap((event) => verifier.check(event).problems)).toEqual([]);
    return events;
  }

  test('gathers what is noted into few appends', async () => {
    let appends = 0;
    const counting: EventStore = {
      ...store,
      append(...append) {
        appends++;
        return store.append(...append);
      },
    };
    const log = createAccessLog({ store: counting, logger });
    for (const number of numbers(300)) log.note(access(number));
    await log.close();
    const events = await news();
    expect(idsOf(events)).toEqual(numbers(300).map((number) => `txr_${number}`));
    expect(new Set(events.map(({ stream }) => stream)).size).toBe(1);
    expect(events[0]?.metadata).toMatchObject({
      actor: 'key:key_1',
      client_address: '192.0.2.1',
      account_id: 'acc_default',
    });
    expect(appends).toBe(2);
  });

  test('has an access once if the answer of its append is lost', async () => {
    let losses = 1;
    const losing: EventStore = {
      ...store,
      async append(...append) {
        const result = await store.append(...append);
        if (losses-- > 0) throw new EventStoreUnavailable('the answer is lost');
        return result;
      },
    };
    const log = createAccessLog({ store: losing, logger, accessGatherMs: 10 });
    await expect(log.record(access(1))).rejects.toThrow(EventStoreUnavailable);
    log.note(access(2));
    await log.record(access(3));
    await log.close();
    expect(idsOf(await news()).sort()).toEqual(['txr_1', 'txr_2', 'txr_3']);
  });

  test('begins another stream after a thousand events', async () => {
    const log = createAccessLog({ store, logger });
    for (const number of numbers(2_100)) log.note(access(number));
    await log.close();
    const lengths = Object.groupBy(await news(), ({ stream }) => stream);
    expect(Object.keys(lengths)).toHaveLength(3);
    for (const events of Object.values(lengths)) expect(events?.length).toBeLessThanOrEqual(1_000);
  });

  test('begins another stream if another process writes to its own', async () => {
    let stream = '';
    const shared: EventStore = {
      ...store,
      async append(name, expected, events) {
        if (stream === '' && expected !== 'no_stream') {
          stream = name;
          throw new RevisionConflict(name, expected, null);
        }
        return store.append(name, expected, events);
      },
    };
    const log = createAccessLog({ store: shared, logger });
    for (const number of numbers(3)) await log.record(access(number));
    const events = await news();
    expect(idsOf(events)).toEqual(['txr_0', 'txr_1', 'txr_2']);
    expect(events.map((event) => event.stream === stream)).toEqual([true, false, false]);
  });
});
