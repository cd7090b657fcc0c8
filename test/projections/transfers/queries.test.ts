import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import { INDEXED } from '../../../src/adapters/postgres/pools.ts';
import { CHANGES, type Change } from '../../../src/domain/transfers/decider.ts';
import type { TransferErrorCode, TransferPhase } from '../../../src/domain/transfers/errors.ts';
import {
  PRIORITIES,
  SORT_ORDERS,
  TRANSFER_STATUSES,
  type TransferCreated,
  type TransferEvent,
  type TransferStatus,
} from '../../../src/domain/transfers/transfer.ts';
import { createQueue } from '../../../src/processes/dispatch/queue-estimate.ts';
import { findTransfer } from '../../../src/processes/live/queries.ts';
import { prepareReadModels } from '../../../src/projections/read-models.ts';
import { findChangeable } from '../../../src/projections/transfers/changeable.ts';
import { listByDestination } from '../../../src/projections/transfers/destination-list.ts';
import type { TransferFilter } from '../../../src/projections/transfers/filter.ts';
import { transfersProjection } from '../../../src/projections/transfers/projection.ts';
import { eachTransfer, listTransfers } from '../../../src/projections/transfers/queries.ts';
import { createLog } from '../../support/domain/histories.ts';
import { TRANSFER_EVENTS, transferCreated } from '../../support/domain/samples.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const START = Date.parse('2026-03-01T00:00:00.000Z');
const HOUR_MS = 3_600_000;
const HOURS = 12;
const COUNT = 3_000;
const DESTINATIONS = [
  'sftp://a/100%25/',
  'sftp://a/100%/',
  'sftp://a/1000/',
  'sftp://a/x_y/',
  'sftp://a/xzy/',
  's3://B/größe/日本\u{1f600}/',
];

const { admitted, started, retry, completed, failed, cancelled } = TRANSFER_EVENTS;
const PATHS: Record<TransferStatus, TransferEvent[]> = {
  pending: [],
  // These two keep the error of an attempt, but did not fail.
  queued: [admitted, started, retry],
  cancelled: [admitted, started, retry, cancelled],
  in_progress: [admitted, started],
  completed: [admitted, started, completed],
  failed: [admitted, started, failed],
};
const OFTEN: TransferErrorCode = failed.data.error.code;
const RARE: TransferErrorCode = 'disk_full';
const NEVER: TransferErrorCode = 'stalled';

function failedWith(code: TransferErrorCode, phase: TransferPhase): TransferEvent[] {
  const error = { ...failed.data.error, code, phase };
  return [admitted, started, { ...failed, data: { ...failed.data, error } }];
}

/** Where the transfers fail, and the endpoint whose fault that is. */
const PHASES = [
  ['prepare', null],
  ['source_sign_in', 'end_1'],
  ['read', 'end_1'],
  ['write', 'end_2'],
  ['destination_connect', 'end_2'],
  ['verify', 'end_2'],
] as const;

interface Known {
  created: TransferCreated;
  status: TransferStatus;
  /** Null if it did not fail. */
  code: TransferErrorCode | null;
  /** Null if it did not fail, or at no endpoint. */
  endpointId: string | null;
}

describeWithPostgres('queries of transfers', () => {
  let database: TestDatabase;
  const known: Known[] = [];
  const repeated = new Set<string | null>();

  beforeAll(async () => {
    database = await createTestDatabase();
    await prepareReadModels(database.sql, 'log-id');
    const log = createLog();
    const choose = <T>(values: readonly T[], i: number) => values[i % values.length] as T;
    for (let i = 0; i < COUNT; i++) {
      // Groups of transfers at the same instant, at the boundaries of hours, and hours without any.
      const hour = Math.floor((i * 7919) % HOURS);
      const at = choose([0, HOUR_MS - 1, (i * 104_729) % HOUR_MS, 1_800_000], i);
      const status = choose(TRANSFER_STATUSES, Math.floor(i / 5));
      const created = transferCreated({
        transfer_id: `txr_${String((i * 31) % COUNT).padStart(6, '0')}`,
        account_id: i % 10 === 0 ? 'acc_b' : 'acc_a',
        created_at: new Date(
          START + (hour % 5 === 3 ? hour - 1 : hour) * HOUR_MS + at,
        ).toISOString(),
        destination: `${i % 50 === 7 ? 'ftps://c/' : choose(DESTINATIONS, i)}${i % 7}.csv`,
        priority: choose(PRIORITIES, i % 11),
        retry_of: i % 13 === 12 ? (known[(i * 37) % i]?.created.transfer_id ?? null) : null,
      });
      const code = status === 'failed' ? (i % 75 === 22 ? RARE : OFTEN) : null;
      const [phase, endpointId] = choose(PHASES, Math.floor(i / 30));
      known.push({ created, status, code, endpointId: code && endpointId });
      repeated.add(created.retry_of);
      const stream = `transfer-${created.transfer_id}`;
      const path = code === null ? PATHS[status] : failedWith(code, phase);
      const all: TransferEvent[] = [{ type: 'transfer.created', data: created }, ...path];
      for (const event of all) log.append(stream, event);
    }
    for (let i = 0; i < log.events.length; i += 1_000) {
      await database.sql.begin((tx) =>
        transfersProjection.apply(tx, 'read', log.events.slice(i, i + 1_000)),
      );
    }
  });
  afterAll(() => database?.drop());

  /** Ids of the matches, newest first. */
  function naive(
    account: string,
    { status, errorCode, errorEndpointId, from, to, destination, retryOf, retried }: TransferFilter,
  ): string[] {
    return known
      .filter(({ created }) => created.account_id === account)
      .filter((each) => status === undefined || each.status === status)
      .filter(({ code }) => errorCode === undefined || code === errorCode)
      .filter((each) => errorEndpointId === undefined || each.endpointId === errorEndpointId)
      .filter(
        ({ created }) =>
          (from === undefined || created.created_at >= from) &&
          (to === undefined || created.created_at <= to),
      )
      .filter(
        ({ created }) => destination === undefined || created.destination.startsWith(destination),
      )
      .filter(({ created }) => retryOf === undefined || created.retry_of === retryOf)
      .filter(
        ({ created }) => retried === undefined || repeated.has(created.transfer_id) === retried,
      )
      .map(({ created }) => ({ id: created.transfer_id, at: created.created_at }))
      .toSorted((a, b) => (a.at === b.at ? compare(b.id, a.id) : compare(b.at, a.at)))
      .map(({ id }) => id);
  }

  const instant = fc
    .tuple(
      fc.integer({ min: -1, max: HOURS + 1 }),
      fc.oneof(
        fc.constantFrom(0, 1, HOUR_MS - 1, 1_800_000),
        fc.integer({ min: 0, max: HOUR_MS - 1 }),
      ),
    )
    .map(([hour, at]) => new Date(START + hour * HOUR_MS + at).toISOString());
  const span = fc.oneof(
    fc.tuple(instant, instant).map(([a, b]) => (a < b ? { from: a, to: b } : { from: b, to: a })),
    // Within one hour.
    fc
      .tuple(instant, fc.nat(HOUR_MS))
      .map(([from, ms]) => ({ from, to: new Date(Date.parse(from) + ms).toISOString() })),
    instant.map((from) => ({ from })),
    instant.map((to) => ({ to })),
    fc.constant({}),
  );
  const status = fc.record({ status: fc.constantFrom(...TRANSFER_STATUSES) }, { requiredKeys: [] });
  const destination = fc.constantFrom(
    'sftp://a/',
    's3://B/',
    's3://B/grö',
    's3://B/größe/日',
    's3://B/größe/日本\u{1f600}',
    's3://B/größe/日本\u{ffff}',
    's3://b/',
    'sftp://a/100%',
    'sftp://a/x_y',
    'sftp://a/%',
    's',
    '',
    '\\',
    'sftp://a/\u{d7ff}',
    '\u{10ffff}',
    's\u{10ffff}\u{10ffff}',
  );
  const retryOf = fc
    .nat(COUNT - 1)
    .map((i) => ({ retryOf: known[i]?.created.retry_of ?? 'txr_000001' }));
  const errorCode = fc.oneof(
    { weight: 3, arbitrary: fc.constant({}) },
    fc.record({ errorCode: fc.constantFrom(OFTEN, RARE, NEVER) }),
    fc.record({ errorEndpointId: fc.constantFrom('end_1', 'end_2', 'end_3') }),
  );
  const retried = fc.record({ retried: fc.boolean() }, { requiredKeys: [] });
  const filter: fc.Arbitrary<TransferFilter> = fc
    .tuple(
      span,
      status,
      errorCode,
      retried,
      fc.oneof(
        { weight: 3, arbitrary: fc.constant({}) },
        destination.map((destination) => ({ destination })),
        retryOf,
      ),
    )
    .map((parts) => Object.assign({}, ...parts) as TransferFilter);

  it('return what a plain scan returns, on every page', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('acc_a', 'acc_b', 'acc_none'),
        filter,
        fc.integer({ min: 1, max: 100 }),
        fc.double({ min: 0, max: 1.1, noNaN: true }),
        fc.constantFrom(...SORT_ORDERS),
        async (account, wanted, limit, share, sort) => {
          const newestFirst = naive(account, wanted);
          const expected = sort === '-created_at' ? newestFirst : newestFirst.toReversed();
          const offset = Math.floor(share * expected.length);
          const page = { limit, offset, sort };
          const { transfers, total } = await listTransfers(database.sql, account, wanted, page);
          expect(total).toBe(expected.length);
          expect(transfers.map(({ facts }) => facts.transfer_id)).toEqual(
            expected.slice(offset, offset + limit),
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  it('return the transfers below a destination, whether few match, many, or all but few', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('acc_a', 'acc_b', 'acc_none'),
        fc.tuple(
          span,
          status,
          errorCode,
          fc.oneof({ weight: 5, arbitrary: fc.constant({}) }, retryOf),
        ),
        // Most begin with the latter two.
        fc.oneof(destination, fc.constantFrom('s', 'sftp://a/')),
        fc.integer({ min: 1, max: 100 }),
        fc.double({ min: 0, max: 1.1, noNaN: true }),
        fc.constantFrom(...SORT_ORDERS),
        fc.constantFrom(0, 100, COUNT / 6),
        async (account, parts, prefix, limit, share, sort, few) => {
          const wanted = { ...Object.assign({}, ...parts), destination: prefix };
          const newestFirst = naive(account, wanted);
          const expected = sort === '-created_at' ? newestFirst : newestFirst.toReversed();
          const offset = Math.floor(share * expected.length);
          const page = { limit, offset, sort };
          const found = await listByDestination(database.sql, account, wanted, page, few);
          expect(found.total).toBe(expected.length);
          expect(found.transfers.map(({ facts }) => facts.transfer_id)).toEqual(
            expected.slice(offset, offset + limit),
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  describe('read few of all rows, also when their plans are kept:', () => {
    let sql: Sql;
    beforeAll(async () => {
      await database.sql`analyze read.transfers`;
      // One connection: Postgres considers a plan for any values after five runs on it.
      sql = connect(database.url, { max: 1, settings: INDEXED });
    });
    afterAll(() => sql?.end());

    const first = async (filter: TransferFilter) => {
      for await (const transfers of eachTransfer(sql, 'acc_a', filter)) return transfers.length;
      return 0;
    };
    const rare = { destination: 'sftp://a/100%25/0' };
    const none = { destination: 'sftp://none/' };
    const early = { to: new Date(START).toISOString() };
    const list = async (filter: TransferFilter, offset = 0) =>
      (await listTransfers(sql, 'acc_a', filter, { limit: 25, offset })).transfers.length;
    it.each<[string, () => Promise<number>]>([
      ['a page', () => list({})],
      ['a late page', () => list({}, 2_000)],
      ['a page of a status', () => list({ status: 'failed' })],
      ['a page of few destinations', () => list(rare)],
      ['a page of no destination', () => list(none)],
      ['a page of a time', () => list(early)],
      ['the retries of a transfer', () => list({ retryOf: 'txr_000001' })],
      ['the transfers of a batch', () => list({ batchId: 'bat_1' })],
      ['an export of few destinations', () => first(rare)],
      ['an export of a time', () => first(early)],
      [
        'a retry of few',
        async () => {
          const retry = { action: 'retry' } as const;
          return (await findChangeable(sql, 'acc_a', rare, retry, 25)).transferIds.length;
        },
      ],
    ])('%s', async (_, read) => {
      for (let i = 0; i < 6; i++) await read();
      const before = await rowsRead(sql);
      await read();
      // At most the rows of an hour, of which the counts know no more than their number.
      expect((await rowsRead(sql)) - before).toBeLessThan(COUNT / 6);
    });

    it.each([true, false])('a page of those that failed, retried: %s', async (retried) => {
      const read = () => list({ status: 'failed', retried });
      for (let i = 0; i < 6; i++) await read();
      const before = await rowsRead(sql);
      await read();
      // Those that have failed, for the total and for the page, and the retries of each.
      expect((await rowsRead(sql)) - before).toBeLessThan(COUNT / 2);
    });

    describe.each(['auto', 'force_generic_plan'])('those with an error, with %s,', (mode) => {
      let sql: Sql;
      beforeAll(() => {
        sql = connect(database.url, {
          max: 1,
          settings: { ...INDEXED, plan_cache_mode: mode },
        });
      });
      afterAll(() => sql?.end());

      const page = { limit: 25, offset: 0 };
      const retry = { action: 'retry' } as const;
      const total = async (filter: TransferFilter) =>
        (await listTransfers(sql, 'acc_a', { errorCode: RARE, ...filter }, page)).total;
      it.each<[string, () => Promise<number>]>([
        ['on a page', () => total({})],
        ['on a page of the status', () => total({ status: 'failed' })],
        ['on a page of another status', () => total({ status: 'completed' })],
        ['on a page of a time', () => total({ from: new Date(START).toISOString() })],
        ['on a page of a destination', () => total({ destination: 's' })],
        ['on a page of no destination', () => total(none)],
        ['on a page of an error that none has', () => total({ errorCode: NEVER })],
        [
          'on a page of an endpoint at which none failed',
          () => total({ errorCode: undefined, errorEndpointId: 'end_3' }),
        ],
        [
          'in an export',
          async () => {
            let exported = 0;
            for await (const transfers of eachTransfer(sql, 'acc_a', { errorCode: RARE }))
              exported += transfers.length;
            return exported;
          },
        ],
        [
          'in a retry',
          async () => {
            const found = await findChangeable(sql, 'acc_a', { errorCode: RARE }, retry, 25);
            return found.transferIds.length;
          },
        ],
      ])('%s', async (_, read) => {
        for (let i = 0; i < 6; i++) await read();
        const before = await rowsRead(sql);
        await read();
        // A few times those with the error, and the retries: fewer than have failed.
        expect((await rowsRead(sql)) - before).toBeLessThan(COUNT / 10);
      });
    });

    const few = 100;
    it.each<[string, number]>([
      ['a page of nearly all destinations', 0],
      ['a late page of nearly all destinations', 2_000],
    ])('%s', async (_, offset) => {
      const page = { limit: 25, offset, sort: '-created_at' } as const;
      const read = () => listByDestination(sql, 'acc_a', { destination: 's' }, page, few);
      for (let i = 0; i < 6; i++) await read();
      const before = await entriesRead(sql);
      expect((await read()).total).toBe(naive('acc_a', { destination: 's' }).length);
      // Few entries to see that many match, fewer of the others, and an hour or two.
      expect((await entriesRead(sql)) - before).toBeLessThan(COUNT / 3);
    });
  });

  it('find those with an error in tables of an older version, which have no indexes', async () => {
    const { sql } = database;
    const indexes = await sql<{ name: string; definition: string }[]>`
      select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
        from pg_index
       where indrelid = 'read.transfers'::regclass and pg_get_indexdef(indexrelid) like '%error%'`;
    expect(indexes).toHaveLength(2);
    for (const { name } of indexes) await sql.unsafe(`drop index ${name}`);
    try {
      for (const filter of [
        { errorCode: OFTEN },
        { errorCode: RARE },
        { errorCode: NEVER },
        { errorEndpointId: 'end_1' },
      ]) {
        const page = { limit: 100, offset: 0 };
        const { transfers, total } = await listTransfers(sql, 'acc_a', filter, page);
        const expected = naive('acc_a', filter);
        expect(total).toBe(expected.length);
        expect(transfers.map(({ facts }) => facts.transfer_id)).toEqual(expected.slice(0, 100));
      }
    } finally {
      for (const { definition } of indexes) await sql.unsafe(definition);
    }
  });

  it('find what a change applies to, oldest first', async () => {
    const byId = new Map(known.map((each) => [each.created.transfer_id, each]));
    const applies = (id: string, action: Change, priority: string | undefined) => {
      const { created, status } = byId.get(id) as Known;
      if (!(CHANGES[action] as readonly string[]).includes(status)) return false;
      if (action === 'set_priority') return created.priority !== priority;
      return action !== 'retry' || !repeated.has(id);
    };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<{ action: Change; priority?: 'low' | 'high' }>(
          { action: 'retry' },
          { action: 'cancel' },
          { action: 'set_priority', priority: 'high' },
          { action: 'set_priority', priority: 'low' },
        ),
        filter,
        fc.constantFrom(1, 10, COUNT),
        async (change, wanted, limit) => {
          const expected = naive('acc_a', wanted)
            .filter((id) => applies(id, change.action, change.priority))
            .reverse();
          expect(await findChangeable(database.sql, 'acc_a', wanted, change, limit)).toEqual({
            transferIds: expected.slice(0, limit),
            hasMore: expected.length > limit,
          });
        },
      ),
      { numRuns: 200 },
    );
  });

  it('return every transfer once over all pages', async () => {
    const ids: string[] = [];
    for (let offset = 0; offset <= COUNT; offset += 100) {
      const { transfers } = await listTransfers(database.sql, 'acc_a', {}, { limit: 100, offset });
      ids.push(...transfers.map(({ facts }) => facts.transfer_id));
    }
    expect(ids).toEqual(naive('acc_a', {}));
  });

  it('count the open transfers', async () => {
    const open = known.filter(
      ({ created, status }) =>
        created.account_id === 'acc_a' && ['pending', 'queued', 'in_progress'].includes(status),
    );
    const openTransfers = async (account: string) =>
      (await createQueue(database.sql, {}).estimate(account, 'normal')).openTransfers;
    expect(await openTransfers('acc_a')).toBe(open.length);
    expect(await openTransfers('acc_none')).toBe(0);
  });

  it("find an account's own transfer", async () => {
    const { created, status } = known.find((each) => each.created.account_id === 'acc_a')!;
    expect(await findTransfer(database.sql, 'acc_a', created.transfer_id)).toMatchObject({
      transfer: { status, facts: created },
      moving: null,
    });
    expect(await findTransfer(database.sql, 'acc_b', created.transfer_id)).toBeNull();
    expect(await findTransfer(database.sql, 'acc_a', 'txr_none')).toBeNull();
  });
});

describeWithPostgres('a change of the few failed transfers', () => {
  it('does not read the others where Postgres has seen no failed one', async () => {
    const database = await createTestDatabase();
    const sql = connect(database.url, { max: 1, settings: INDEXED });
    try {
      await prepareReadModels(sql, 'log-id');
      const log = createLog();
      const created = transferCreated({ transfer_id: 'txr_first', account_id: 'acc_a' });
      for (const event of [
        { type: 'transfer.created', data: created } as const,
        ...PATHS.completed,
      ])
        log.append('transfer-txr_first', event);
      await sql.begin((tx) => transfersProjection.apply(tx, 'read', log.events));
      const copy = (status: string, count: number) => sql`
        insert into read.transfers
        select 'txr_' || ${status} || n, account_id, ${status}, created_at + n * interval '1 second',
               destination, revision, position, state
          from read.transfers, generate_series(1, ${count}::integer) n
         where transfer_id = 'txr_first'`;
      await copy('completed', COUNT);
      await sql`analyze read.transfers`;
      await copy('failed', 2);

      const before = await rowsRead(sql);
      const found = await findChangeable(sql, 'acc_a', {}, { action: 'retry' }, 25);
      expect(found.transferIds).toEqual(['txr_failed1', 'txr_failed2']);
      expect((await rowsRead(sql)) - before).toBeLessThan(COUNT / 6);
    } finally {
      await sql.end();
      await database.drop();
    }
  });
});

/** Returns how many rows of transfers were read so far. */
async function rowsRead(sql: Sql): Promise<number> {
  await sql`select pg_stat_force_next_flush()`;
  const [read] = await sql<{ rows: number }[]>`
    select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
      from pg_stat_user_tables where schemaname = 'read' and relname = 'transfers'`;
  return read?.rows ?? 0;
}

/**
 * Returns how many entries of the indexes of transfers, and rows of full scans, were read so far.
 */
async function entriesRead(sql: Sql): Promise<number> {
  await sql`select pg_stat_force_next_flush()`;
  const [read] = await sql<{ entries: number }[]>`
    select (seq_tup_read + (select sum(idx_tup_read) from pg_stat_user_indexes i
                             where i.relid = t.relid))::integer as entries
      from pg_stat_user_tables t where schemaname = 'read' and relname = 'transfers'`;
  return read?.entries ?? 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
