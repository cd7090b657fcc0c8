/*
 * The read model of searches: the text in which each transfer is found. It follows from
 * `transfer.created` alone, so no later event writes to it, but for the record that a transfer
 * leaves the log.
 *
 * Rows come into segment 0, which has no index of their texts. When an account has SEGMENT_ROWS
 * rows there, they move to a segment of their own, which gets an index of trigrams (`seal`). That
 * costs half of what single rows would cost. A search asks one segment after the other, newest
 * first, and stops when it has enough (search-queries.ts):
 * - A word of half of all transfers fills the page from the first segment.
 * - A rare word costs a fraction of a millisecond in each segment.
 *
 * One index for all transfers could do neither: it returns all matches before the newest is known.
 *
 * Without the extension pg_trgm segments have no index. Searches then read every text.
 */

import type { Transaction } from '../adapters/postgres/connect.ts';
import { trigramSchema } from '../adapters/postgres/trigrams.ts';
import type { StoredEvent } from '../domain/event.ts';
import { type RetentionRecorded, retentionRecords } from '../domain/retention.ts';
import { RETENTION, streamPrefix } from '../domain/streams.ts';
import type { TransferCreated } from '../domain/transfer.ts';
import type { Difference, Projection } from './projection.ts';
import { searchText } from './search-text.ts';

/**
 * A search reads this many texts without an index, and all of a segment in which every text
 * matches: about 20 ms each.
 */
export const SEGMENT_ROWS = 30_000;

const COLUMNS = ['segment', 'account_id', 'transfer_id', 'created_at', 'position', 'text'];

/** Creates the projection. Tests choose smaller segments. */
export function createTransferSearch(segmentRows: number): Projection {
  return {
    name: 'transfer_search',
    version: 2,
    streams: [streamPrefix('transfer'), RETENTION],
    tables: ['transfer_search', 'transfer_search_segments', 'transfer_search_accounts'],
    // No request waits for a search to show what it wrote.
    gatherMs: 250,

    async create(tx, schema) {
      await tx`
        create table ${tx(schema)}.transfer_search (
          -- 0: not in a segment of its account yet
          segment integer not null,
          account_id text collate "C" not null,
          transfer_id text collate "C" not null,
          created_at timestamptz not null,
          position bigint not null,
          text text collate "C" not null
        ) partition by list (segment)`;
      await tx`
        create table ${tx(schema)}.${tx(partition(0))}
          partition of ${tx(schema)}.transfer_search for values in (0)`;
      await skipStatistics(tx, schema, 0, ['text']);
      await tx`
        create index on ${tx(schema)}.${tx(partition(0))}
          (account_id, created_at desc, transfer_id desc)`;
      await tx`
        create table ${tx(schema)}.transfer_search_segments (
          segment integer primary key,
          account_id text collate "C" not null,
          -- the times of its first and last transfer
          starts timestamptz not null,
          ends timestamptz not null
        )`;
      await tx`create index on ${tx(schema)}.transfer_search_segments (account_id)`;
      await tx`
        create table ${tx(schema)}.transfer_search_accounts (
          account_id text collate "C" primary key,
          -- rows in segment 0
          recent integer not null,
          -- of the last event that was folded
          position bigint not null
        )`;
    },

    async apply(tx, schema, events) {
      const created = events.filter(({ type }) => type === 'transfer.created');
      if (created.length > 0) {
        const full = await insert(tx, schema, created, segmentRows);
        for (const account of full) await seal(tx, schema, account);
      }
      const retained = retentionRecords(events);
      if (retained.length > 0)
        await remove(
          tx,
          schema,
          retained.map(({ data }) => data),
        );
    },

    async differences(tx, live, shadow, position, limit) {
      const digests = (schema: string) => tx`
        select transfer_id, account_id, created_at, position, md5(text) as digest
          from ${tx(schema)}.transfer_search`;
      return tx<Difference[]>`
        select transfer_id as key
          from (${digests(live)}) l full join (${digests(shadow)}) s using (transfer_id)
         where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position}
           and l is distinct from s
        union all
        select concat_ws(' ', 'segment', segment)
          from (
            select segment, account_id, min(created_at) as starts, max(created_at) as ends
              from ${tx(live)}.transfer_search where segment <> 0 group by 1, 2
          ) found
          full join ${tx(live)}.transfer_search_segments stored
            using (segment, account_id, starts, ends)
         where found is null or stored is null
        union all
        select concat_ws(' ', 'account', account_id)
          from (
            select account_id, count(*)::integer as recent
              from ${tx(live)}.transfer_search where segment = 0 group by 1
          ) found
          full join (
            select account_id, recent from ${tx(live)}.transfer_search_accounts where recent <> 0
          ) stored using (account_id, recent)
         where found is null or stored is null
        limit ${limit}`;
    },
  };
}

export const transferSearchProjection = createTransferSearch(SEGMENT_ROWS);

function partition(segment: number): string {
  return `transfer_search_${segment}`;
}

/**
 * Keeps autovacuum from sampling columns of a partition. A search uses the only index anyway, and
 * the planner would read the samples of each partition, which takes longer than the search itself.
 */
async function skipStatistics(
  tx: Transaction,
  schema: string,
  segment: number,
  columns: string[],
): Promise<void> {
  await tx.unsafe(
    `alter table "${schema}".${partition(segment)} ` +
      columns.map((column) => `alter column ${column} set statistics 0`).join(', '),
  );
}

/** Inserts the transfers that are not there yet. Returns the accounts with enough for a segment. */
async function insert(
  tx: Transaction,
  schema: string,
  events: StoredEvent[],
  segmentRows: number,
): Promise<string[]> {
  const created = events.map(({ data }) => data as TransferCreated);
  const rows = await tx<{ account_id: string; is_full: boolean }[]>`
    with added as (
      insert into ${tx(schema)}.transfer_search
        (segment, account_id, transfer_id, created_at, position, text)
      select 0, account_id, transfer_id, created_at::timestamptz, c.position, text
        from unnest(
          ${created.map(({ account_id }) => account_id)}::text[],
          ${created.map(({ transfer_id }) => transfer_id)}::text[],
          ${created.map(({ created_at }) => created_at)}::text[],
          ${events.map(({ position }) => String(position))}::bigint[],
          ${created.map(searchText)}::text[]
        ) as c(account_id, transfer_id, created_at, position, text)
        left join ${tx(schema)}.transfer_search_accounts a using (account_id)
       where c.position > coalesce(a.position, 0)
      returning account_id, position
    )
    insert into ${tx(schema)}.transfer_search_accounts as a (account_id, recent, position)
    select account_id, count(*), max(position) from added group by account_id
    on conflict (account_id) do update
      set recent = a.recent + excluded.recent, position = excluded.position
    returning account_id, recent >= ${segmentRows} as is_full`;
  return rows.filter((row) => row.is_full).map(({ account_id }) => account_id);
}

/** Moves the rows of an account from segment 0 to a segment of their own, with its index. */
async function seal(tx: Transaction, schema: string, account: string): Promise<void> {
  const [last] = await tx<{ segment: number }[]>`
    select coalesce(max(segment), 0) as segment from ${tx(schema)}.transfer_search_segments`;
  const segment = (last?.segment ?? 0) + 1;
  const table = tx`${tx(schema)}.${tx(partition(segment))}`;
  await tx`create table ${table} (like ${tx(schema)}.transfer_search)`;
  await tx`
    insert into ${table} (segment, account_id, transfer_id, created_at, position, text)
    select ${segment}::integer, account_id, transfer_id, created_at, position, text
      from ${tx(schema)}.transfer_search where segment = 0 and account_id = ${account}
     order by created_at, transfer_id`;
  await skipStatistics(tx, schema, segment, COLUMNS);
  const trigrams = await trigramSchema(tx);
  if (trigrams !== null)
    await tx`create index on ${table} using gin (text ${tx(trigrams)}.gin_trgm_ops)`;
  await tx`
    insert into ${tx(schema)}.transfer_search_segments (segment, account_id, starts, ends)
    select ${segment}::integer, ${account}, min(created_at), max(created_at) from ${table}`;
  await tx.unsafe(
    `alter table "${schema}".transfer_search ` +
      `attach partition "${schema}".${partition(segment)} for values in (${segment})`,
  );
  await tx`
    delete from ${tx(schema)}.transfer_search where segment = 0 and account_id = ${account}`;
  await tx`
    update ${tx(schema)}.transfer_search_accounts set recent = 0 where account_id = ${account}`;
}

/**
 * Removes transfers that leave the log. They ended before a certain time, so only segments that begin
 * before it have any. A segment without rows goes too.
 */
async function remove(
  tx: Transaction,
  schema: string,
  records: RetentionRecorded[],
): Promise<void> {
  const transfers = records.flatMap(({ transfers }) => transfers);
  const ids = transfers.map(({ transfer_id }) => transfer_id);
  const accounts = [...new Set(transfers.map(({ account_id }) => account_id))];
  const before = records
    .map(({ ended_before }) => ended_before)
    .sort()
    .at(-1) as string;
  const segments = await tx<{ segment: number }[]>`
    select segment from ${tx(schema)}.transfer_search_segments
     where account_id = any(${accounts}) and starts < ${before}`;
  const gone = await tx<{ segment: number; account_id: string; rows: number }[]>`
    with gone as (
      delete from ${tx(schema)}.transfer_search
       where segment = any(${[0, ...segments.map(({ segment }) => segment)]}::integer[])
         and account_id = any(${accounts}) and transfer_id = any(${ids})
      returning segment, account_id
    )
    select segment, account_id, count(*)::integer as rows from gone group by 1, 2`;
  for (const { segment, account_id, rows } of gone) {
    if (segment === 0)
      await tx`
        update ${tx(schema)}.transfer_search_accounts set recent = recent - ${rows}
         where account_id = ${account_id}`;
    else await shrink(tx, schema, segment);
  }
}

/** Updates what the list of segments says about one, or drops it if it is empty. */
async function shrink(tx: Transaction, schema: string, segment: number): Promise<void> {
  const left = await tx`
    update ${tx(schema)}.transfer_search_segments s set starts = l.starts, ends = l.ends
      from (select min(created_at) as starts, max(created_at) as ends
              from ${tx(schema)}.${tx(partition(segment))}) l
     where s.segment = ${segment} and l.starts is not null`;
  if (left.count > 0) return;
  await tx`delete from ${tx(schema)}.transfer_search_segments where segment = ${segment}`;
  await tx`drop table ${tx(schema)}.${tx(partition(segment))}`;
}
