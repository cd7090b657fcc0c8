import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../../../src/adapters/postgres/connect.ts';
import { INDEXED } from '../../../../src/adapters/postgres/pools.ts';
import type { StoredEvent } from '../../../../src/domain/events/event.ts';
import type { TransferErrorCode } from '../../../../src/domain/transfers/errors.ts';
import {
  SORT_ORDERS,
  type TransferCreated,
  type TransferEvent,
} from '../../../../src/domain/transfers/transfer.ts';
import { searchWords } from '../../../../src/projections/lists.ts';
import { prepareReadModels } from '../../../../src/projections/read-models.ts';
import type { TransferFilter } from '../../../../src/projections/transfers/filter.ts';
import { transfersProjection } from '../../../../src/projections/transfers/projection.ts';
import { eachTransfer, listTransfers } from '../../../../src/projections/transfers/queries.ts';
import { createTransferSearch } from '../../../../src/projections/transfers/search/projection.ts';
import { searchTransfers } from '../../../../src/projections/transfers/search/queries.ts';
import { searchText } from '../../../../src/projections/transfers/search/text.ts';
import { listsOf } from '../../../../src/projections/transfers/search/trigrams.ts';
import { createLog } from '../../../support/domain/histories.ts';
import { TRANSFER_EVENTS, transferCreated } from '../../../support/domain/samples.ts';
import { whileTableLocked } from '../../../support/postgres/row-locks.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../../support/postgres/test-database.ts';

const COUNT = 2_600;
/** Small, so that accounts have many segments. More than FEW transfers pass most filters. */
const SEGMENT_ROWS = 200;
const START = Date.parse('2026-03-01T00:00:00.000Z');
const NAMES = ['Report', 'INVOICE', 'payroll_100%', 'Übersicht', '日本語', 'отчёт', 'a-b'];
const WORDS = [
  ...['report', 'ORT', 'invoice', '100%', '100_', 'payroll', 'über', '日本', '日本語-1', 'ОТЧЁТ-2'],
  ...['sftp://host-1/out/payroll_100', 'txr_000031', 'customer-1\\', 'archive_2/in/rep', '%-%'],
  ...['a-b', 'a', 'b', '7', '.c', 'in/', 'sftp://', 'order', 'customer-1', 'nothing', 'DGxx', '\\'],
];

const search = createTransferSearch(SEGMENT_ROWS);

function failedWith(code: TransferErrorCode): TransferEvent[] {
  const { admitted, started, failed } = TRANSFER_EVENTS;
  const error = { ...failed.data.error, code };
  return [admitted, started, { ...failed, data: { ...failed.data, error } }];
}

describe('the words of a search', () => {
  const found = (words: string, created: Partial<TransferCreated>) => {
    const text = searchText(transferCreated(created));
    return searchWords(words).every((word) => text.includes(word));
  };

  it('may be parts of each field, in any order and case', () => {
    const created = {
      transfer_id: 'txr_01K9ZZZ',
      file_name: 'Übersicht 1.pdf',
      source: 'sftp://Lab/out/%C3%9Cbersicht%201.pdf',
      destination: 's3://Archive/in/',
      metadata: { Order: 'No-4711' },
    };
    for (const words of [
      '01k9z',
      'sicht',
      'ÜBER 1.PDF',
      'lab',
      'archive/',
      'order',
      'no-47',
      '4711 lab',
    ])
      expect(found(words, created), words).toBe(true);
    for (const words of ['lab bank', '47111', 'order:', 'Üpdf'])
      expect(found(words, created), words).toBe(false);
  });

  it.each(['ΠΕΛΑΤΕΣ', 'πελατες', 'πελατεσ', 'ΠΕΛΑΤΕΣ.csv', 'ΑΤΕΣ'])(
    'may have a sigma of any form: %s',
    (words) => {
      for (const file_name of ['ΠΕΛΑΤΕΣ.csv', 'Πελάτες ΠΕΛΑΤΕΣ', 'πελατες.csv'])
        if (file_name.endsWith('.csv') || !words.includes('.'))
          expect(found(words, { file_name }), file_name).toBe(true);
    },
  );

  it('never match a part of the code of another character', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.string({ unit: 'grapheme' }),
        (name, part) => {
          const plain = (text: string) => text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ');
          const [word] = searchWords(part);
          if (word === undefined || searchWords(part).length > 1) return;
          const whole = searchWords(`x${name.replaceAll(/\s/g, '')}x`)[0] as string;
          expect(whole.includes(word)).toBe(
            plain(`x${name.replaceAll(/\s/g, '')}x`).includes(plain(part).trim()),
          );
        },
      ),
    );
  });
});

describeWithPostgres('searches', () => {
  let database: TestDatabase;
  /** Those without a code are pending, the others failed. */
  const known: { created: TransferCreated; code: TransferErrorCode | null }[] = [];
  let events: StoredEvent[];

  beforeAll(async () => {
    database = await createTestDatabase();
    await prepareReadModels(database.sql, 'log-id');
    const log = createLog();
    for (let i = 0; i < COUNT; i++) {
      const name = `${NAMES[(i * 31) % NAMES.length]}-${i}.csv`;
      // Some are appended long after they were created, so segments overlap.
      const at = START + Math.floor(i / 3) * 60_000 - (i % 97 === 0 ? 20_000_000 : 0);
      const created = transferCreated({
        transfer_id: `txr_${String((i * 31) % COUNT).padStart(6, '0')}`,
        account_id: i % 10 === 0 ? 'acc_b' : 'acc_a',
        file_name: name,
        source: `sftp://host-${i % 3}/out/${encodeURIComponent(name)}`,
        destination: `s3://archive_${i % 4}/in/${encodeURIComponent(name)}`,
        metadata: { order: String(i * 7_919), note: `customer-${i % 50}` },
        created_at: new Date(at).toISOString(),
      });
      const code = i % 5 === 0 ? null : i % 50 === 1 ? 'disk_full' : 'timeout';
      known.push({ created, code });
      const stream = `transfer-${created.transfer_id}`;
      log.append(stream, { type: 'transfer.created', data: created });
      for (const event of code === null ? [] : failedWith(code)) log.append(stream, event);
    }
    events = log.events;
    for (let i = 0; i < events.length; i += 500)
      await database.sql.begin(async (tx) => {
        await transfersProjection.apply(tx, 'read', events.slice(i, i + 500));
        await search.apply(tx, 'read', events.slice(i, i + 500));
      });
  });
  afterAll(() => database?.drop());

  function naive(
    account: string,
    { q = '', status, errorCode, from, to, destination }: TransferFilter,
  ) {
    const words = q.normalize('NFC').toLowerCase().split(/\s+/).filter(Boolean);
    return known
      .filter(({ created, code }) => {
        const { transfer_id, file_name, source, created_at, metadata } = created;
        const text = [transfer_id, file_name, source, created.destination]
          .concat(Object.entries(metadata).flat())
          .join('\n')
          .normalize('NFC')
          .toLowerCase();
        return (
          created.account_id === account &&
          words.every((word) => text.includes(word)) &&
          (status === undefined || (status === 'failed') === (code !== null)) &&
          (errorCode === undefined || errorCode === code) &&
          (from === undefined || created_at >= from) &&
          (to === undefined || created_at <= to) &&
          (destination === undefined || created.destination.startsWith(destination))
        );
      })
      .map(({ created }) => `${created.created_at} ${created.transfer_id}`)
      .toSorted()
      .map((key) => key.split(' ')[1] as string);
  }

  const minute = fc
    .nat(Math.ceil(COUNT / 3))
    .map((at) => new Date(START + at * 60_000).toISOString());
  const filters = fc.record(
    {
      status: fc.constantFrom('failed' as const, 'pending' as const),
      errorCode: fc.constantFrom('timeout' as const, 'disk_full' as const, 'stalled' as const),
      from: minute,
      to: minute,
      destination: fc.constantFrom('s3://archive_1/', 's3://archive_1/in/Report', 's3://'),
    },
    { requiredKeys: [] },
  );
  const sort = fc.constantFrom(...SORT_ORDERS);
  const account = fc.constantFrom('acc_a', 'acc_a', 'acc_a', 'acc_b', 'acc_none');

  it('has segments with lists of trigrams, and rows that are in none', async () => {
    const [row] = await database.sql<{ segments: number; indexes: number; rest: number }[]>`
      select (select count(*)::integer from read.transfer_search_segments) as segments,
             (select count(distinct segment)::integer from read.transfer_search_trigrams)
               as indexes,
             (select count(*)::integer from read.transfer_search where segment = 0) as rest`;
    expect(row?.segments).toBeGreaterThan(5);
    expect(row?.indexes).toBe(row?.segments);
    expect(row?.rest).toBeGreaterThan(0);
  });

  it('has fewer transfers in a segment if their texts are long', async () => {
    const log = createLog();
    for (let i = 0; i < 5; i++) {
      const metadata = { note: 'x'.repeat(SEGMENT_ROWS * 200) };
      const data = transferCreated({ transfer_id: `txr_${i}`, metadata });
      log.append(`transfer-txr_${i}`, { type: 'transfer.created', data });
    }
    const segments = await database.sql.begin(async (tx) => {
      await tx`create schema long`;
      await search.create(tx, 'long');
      for (const event of log.events) await search.apply(tx, 'long', [event]);
      const rows = await tx`
        select segment, count(*)::integer as rows from long.transfer_search group by 1 order by 1`;
      await tx`drop schema long cascade`;
      return [...rows];
    });
    expect(segments).toEqual([
      { segment: 0, rows: 2 },
      { segment: 1, rows: 3 },
    ]);
  });

  it('find what a comparison with every transfer finds, in both orders', async () => {
    const words = fc
      .subarray(WORDS, { minLength: 1, maxLength: 3 })
      .filter((all) => all.some((word) => listsOf(searchWords(word)[0] as string).length > 0));
    const page = fc.record({ limit: fc.integer({ min: 1, max: 100 }), offset: fc.nat(300) });
    await fc.assert(
      fc.asyncProperty(
        account,
        words,
        filters,
        sort,
        page,
        async (who, q, filter, order, { limit, offset }) => {
          const asked = { ...filter, q: q.join(' ') };
          const expected = naive(who, asked);
          if (order === '-created_at') expected.reverse();
          const found = await listTransfers(database.sql, who, asked, {
            limit,
            offset,
            sort: order,
          });
          expect(found.transfers.map(({ facts }) => facts.transfer_id)).toEqual(
            expected.slice(offset, offset + limit),
          );
          // A slow machine may stop to count, but not before it knows whether there is more.
          if (found.totalIsExact) expect(found.total).toBe(expected.length);
          else expect(found.total).toBeGreaterThan(offset + limit);
          expect(found.total).toBeLessThanOrEqual(expected.length);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('read few texts for a rare word, also when their plans are kept', async () => {
    // One connection: Postgres considers a plan for any values after five runs on it.
    const sql = connect(database.url, { max: 1, settings: INDEXED });
    const textsRead = async () => {
      await sql`select pg_stat_force_next_flush()`;
      const [read] = await sql<{ rows: number }[]>`
        select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
          from pg_stat_user_tables
         where schemaname = 'read' and relname like 'transfer_search_%'`;
      return read?.rows ?? 0;
    };
    try {
      for (const q of ['txr_000031', 'order 245489', 'sftp://host-1/out/payroll_100%25-31.csv']) {
        const read = () => listTransfers(sql, 'acc_a', { q }, { limit: 10, offset: 0 });
        for (let i = 0; i < 6; i++) await read();
        const before = await textsRead();
        expect((await read()).total).toBe(1);
        // Those in no segment, and samples of three.
        expect((await textsRead()) - before, q).toBeLessThan(3 * SEGMENT_ROWS);
      }
    } finally {
      await sql.end();
    }
  });

  it('of one letter look into the first segments, and say so', async () => {
    const { transfers, total, totalIsExact } = await listTransfers(
      database.sql,
      'acc_a',
      { q: 'a' },
      // More than a segment has: a slow machine counts no further than this page.
      { limit: SEGMENT_ROWS + 10, offset: 0 },
    );
    const all = naive('acc_a', { q: 'a' }).reverse();
    expect(transfers.map(({ facts }) => facts.transfer_id)).toEqual(
      all.slice(0, SEGMENT_ROWS + 10),
    );
    expect(totalIsExact).toBe(false);
    expect(total).toBeLessThan(all.length);
    expect(total).toBeGreaterThan(SEGMENT_ROWS);
  });

  it('yield every match once, over all batches', async () => {
    for (const order of SORT_ORDERS)
      for (const filter of [
        { q: 'csv' },
        { q: 'customer-1', status: 'failed' as const },
        { status: 'failed' as const },
        { q: 'csv', errorCode: 'timeout' as const },
        { q: 'csv', errorCode: 'disk_full' as const },
        {},
      ]) {
        const found: string[] = [];
        for await (const batch of eachTransfer(database.sql, 'acc_a', filter, order))
          found.push(...batch.map(({ facts }) => facts.transfer_id));
        const expected = naive('acc_a', filter);
        expect(found).toEqual(order === 'created_at' ? expected : expected.reverse());
      }
  });

  it('that take too long say what to do, and leave no statement behind', async () => {
    const { sql } = database;
    const of = { accountId: 'acc_a', filter: { q: 'report' }, order: '-created_at' } as const;
    const asked = { ...of, rows: 1, count: 1 };
    await sql.begin(async (tx) => {
      await tx`lock table read.transfer_search_segments in access exclusive mode`;
      // More than run at a time: the others wait for their turn.
      const searches = Array.from({ length: 6 }, () =>
        searchTransfers(sql, { ...asked, withinMs: 100 }),
      );
      for (const result of await Promise.allSettled(searches))
        expect(result).toMatchObject({
          status: 'rejected',
          reason: { code: 'unavailable', message: expect.stringMatching('0.1 s: add a word') },
        });
      const waiting = await tx`
        select from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`;
      expect(waiting).toHaveLength(0);
    });
    expect((await searchTransfers(sql, asked)).places).toHaveLength(1);
  });

  it('of a page run while more exports search than may at a time', async () => {
    const { sql } = database;
    const all = { accountId: 'acc_a', filter: { q: 'report' }, order: '-created_at' } as const;
    const thorough = { ...all, rows: 1, count: 1, thorough: true };
    // Few transfers pass, so it reads their states and no segment.
    const filter = { q: 'csv', errorCode: 'disk_full' } as const;
    const page = { ...all, filter, rows: 1, count: 1, withinMs: 5_000 };
    const exports = await whileTableLocked(sql, 'read.transfer_search_segments', async () => {
      const exports = Array.from({ length: 5 }, () => searchTransfers(sql, thorough));
      expect((await searchTransfers(sql, page)).places).toHaveLength(1);
      return { exports };
    });
    for (const { places } of await Promise.all(exports.exports)) expect(places).toHaveLength(1);
  });

  it('find nothing twice when events are folded again', async () => {
    await database.sql.begin((tx) => search.apply(tx, 'read', events));
    const { total } = await listTransfers(
      database.sql,
      'acc_a',
      { q: 'csv' },
      { limit: COUNT, offset: 0 },
    );
    expect(total).toBe(naive('acc_a', { q: 'csv' }).length);
  });

  it('stop at an event that was changed so that it has no transfer', async () => {
    const created = events.find(({ type }) => type === 'transfer.created') as StoredEvent;
    for (const data of [{}, null, { ...(created.data as object), metadata: null }])
      await expect(
        database.sql.begin((tx) => search.apply(tx, 'read', [{ ...created, data }])),
      ).rejects.toThrow(`Cannot fold event ${created.id}`);
  });

  it('find the same in tables of an older version, whose segments have no lists', async () => {
    const { sql } = database;
    const asked = { q: 'report 1', status: 'failed' as const };
    const columns = [
      ['transfer_search_segments', 'texts'],
      ['transfer_search_accounts', 'starts'],
      ['transfer_search_accounts', 'ends'],
    ] as const;
    for (const [table, column] of columns)
      await sql`alter table read.${sql(table)} rename column ${sql(column)} to ${sql(`${column}_`)}`;
    await sql`alter table read.transfer_search_trigrams rename to other`;
    const { transfers } = await listTransfers(sql, 'acc_a', asked, { limit: 100, offset: 0 });
    await sql`alter table read.other rename to transfer_search_trigrams`;
    for (const [table, column] of columns)
      await sql`alter table read.${sql(table)} rename column ${sql(`${column}_`)} to ${sql(column)}`;
    expect(transfers.map(({ facts }) => facts.transfer_id)).toEqual(
      naive('acc_a', asked).reverse().slice(0, 100),
    );
  });

  it('lose transfers that leave the log, and the segments without any', async () => {
    const { sql } = database;
    const gone = known.filter((_, i) => i < COUNT / 2 || i % 3 === 0).map(({ created }) => created);
    const log = createLog();
    const record = log.append('log-retention', {
      type: 'log.retention_recorded',
      data: {
        ended_before: '2027-01-01T00:00:00.000Z',
        export: { name: 'x', sha256: '' },
        checkpoint: { size: 1, root_hash: '' },
        transfers: gone.map(({ transfer_id, account_id }) => ({
          ...{ transfer_id, account_id, events: [] },
        })),
      },
    });
    const segments = async () =>
      (await sql`select segment from read.transfer_search_segments`).length;
    const before = await segments();
    for (let time = 0; time < 2; time++)
      await sql.begin((tx) => search.apply(tx, 'read', [record]));
    expect(await segments()).toBeLessThan(before);
    const left = await sql`select transfer_id from read.transfer_search`;
    expect(left).toHaveLength(known.length - gone.length);
    const found: string[] = [];
    for await (const batch of eachTransfer(sql, 'acc_a', { q: 'csv' }))
      found.push(...batch.map(({ facts }) => facts.transfer_id));
    const ids = new Set(gone.map(({ transfer_id }) => transfer_id));
    expect(found).toEqual(
      naive('acc_a', { q: 'csv' })
        .reverse()
        .filter((id) => !ids.has(id)),
    );
    const differing = await sql.begin((tx) =>
      search.differences(tx, { live: 'read', shadow: 'read', position: 0n, limit: 10 }),
    );
    expect(differing).toEqual([]);
  });
});
