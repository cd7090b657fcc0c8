/*
 * The read model of searches: the text in which each transfer is found. It follows from
 * `transfer.created` alone. No later event writes to it, except the record that a transfer leaves
 * the log.
 *
 * Rows come into segment 0, which has no index of their texts. When an account has SEGMENT_ROWS
 * rows there, they move to a segment of their own, in the order of their times, and the segment
 * gets an index of trigrams (trigrams.ts). A search asks one segment after the other, newest first,
 * and stops when it has enough (queries.ts):
 * - A word of half of all transfers fills the page from the first rows of the first segment.
 * - A rare word costs a few short lists of each segment.
 *
 * The index is made here and not by Postgres: an index of pg_trgm takes 76 µs of CPU time for each
 * transfer, this one 3 µs.
 */

import type { Queryable } from '../../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import { RETENTION, streamPrefix } from '../../../domain/events/streams.ts';
import { retentionRecords } from '../../../domain/retention.ts';
import type { TransferCreated } from '../../../domain/transfers/transfer.ts';
import type { Writes } from '../../checkpoint.ts';
import { FoldError } from '../../fold.ts';
import type { Projection } from '../../projection.ts';
import { searchDifferences } from './differences.ts';
import { fullAccounts, removeRows, seal } from './fill-segments.ts';
import { isSearchable, searchText } from './text.ts';

/** A search reads this many texts without an index: about 20 ms. */
const SEGMENT_ROWS = 30_000;

/** Creates the projection. Tests choose smaller segments. */
export function createTransferSearch(segmentRows: number): Projection {
  return {
    name: 'transfer_search',
    version: 4,
    streams: [streamPrefix('transfer'), RETENTION],
    tables: [
      'transfer_search',
      'transfer_search_segments',
      'transfer_search_trigrams',
      'transfer_search_accounts',
    ],
    // No request waits for a search to show what it wrote.
    gatherMs: 250,

    async create(tx, schema) {
      await tx`
        create table ${tx(schema)}.transfer_search (
          -- 0: not in a segment of its account yet
          segment integer not null,
          -- its number in the segment, from 0, in the order of times; null in segment 0
          number integer,
          account_id text collate "C" not null,
          transfer_id text collate "C" not null,
          created_at timestamptz not null,
          position bigint not null,
          text text collate "C" not null
        ) partition by list (segment)`;
      await tx`
        create table ${tx(schema)}.transfer_search_0
          partition of ${tx(schema)}.transfer_search for values in (0)`;
      await tx`
        create table ${tx(schema)}.transfer_search_full
          partition of ${tx(schema)}.transfer_search default`;
      // No plan depends on what texts there are.
      for (const table of ['transfer_search_0', 'transfer_search_full'])
        await tx`alter table ${tx(schema)}.${tx(table)} alter column text set statistics 0`;
      await tx`create index on ${tx(schema)}.transfer_search_0 (account_id)`;
      await tx`create index on ${tx(schema)}.transfer_search_full (segment, number)`;
      await tx`
        create table ${tx(schema)}.transfer_search_segments (
          segment integer primary key,
          account_id text collate "C" not null,
          -- the times of its first and last transfer
          starts timestamptz not null,
          ends timestamptz not null,
          -- texts in its index, also of transfers that left the log since
          texts integer not null
        )`;
      await tx`create index on ${tx(schema)}.transfer_search_segments (account_id)`;
      await tx`
        create table ${tx(schema)}.transfer_search_trigrams (
          segment integer not null,
          list integer not null,
          numbers bytea not null,
          primary key (segment, list)
        )`;
      // A list of 4 KB need not be read from a second table.
      await tx`
        alter table ${tx(schema)}.transfer_search_trigrams
          alter column numbers set storage main, alter column numbers set statistics 0`;
      await tx`
        create table ${tx(schema)}.transfer_search_accounts (
          account_id text collate "C" primary key,
          -- rows in segment 0, times that span them, and about how long their texts are
          recent integer not null,
          starts timestamptz,
          ends timestamptz,
          characters bigint not null,
          -- of the last event that was folded
          position bigint not null
        )`;
    },

    async apply(tx, schema, events) {
      const created = createdIn(events);
      if (created.length > 0) {
        await tx`with moved as (select) ${inserts(tx, schema, created)} select`;
        for (const account of await fullAccounts(tx, schema, accountsOf(created), segmentRows, 0))
          await seal(tx, schema, account);
      }
      const records = retentionRecords(events);
      if (records.length > 0)
        await removeRows(
          tx,
          schema,
          records.map(({ data }) => data),
        );
    },

    async inOneStatement(sql, schema, events): Promise<Writes | null> {
      if (retentionRecords(events).length > 0) return null;
      const created = createdIn(events);
      if (created.length === 0) return () => sql``;
      // `apply` moves the rows of an account that has enough of them.
      const accounts = accountsOf(created);
      const full = await fullAccounts(sql, schema, accounts, segmentRows, created.length);
      return full.length > 0 ? null : (statement) => inserts(statement, schema, created);
    },

    differences: searchDifferences,
  };
}

export const transferSearchProjection = createTransferSearch(SEGMENT_ROWS);

interface Created {
  data: TransferCreated;
  position: bigint;
}

/** Throws FoldError for an event that was changed so that it has no transfer. */
function createdIn(events: StoredEvent[]): Created[] {
  const created = events.filter(({ type }) => type === 'transfer.created');
  for (const event of created)
    if (!isSearchable(event.data)) throw new FoldError(event, 'its data has no transfer');
  return created as unknown as Created[];
}

function accountsOf(created: Created[]): string[] {
  return [...new Set(created.map(({ data }) => data.account_id))];
}

/**
 * Returns the CTEs that insert the transfers that are not there yet, if the CTE `moved` has a row.
 */
function inserts(sql: Queryable, schema: string, created: Created[]) {
  const facts = created.map(({ data }) => data);
  return sql`
    , added as (
      insert into ${sql(schema)}.transfer_search
        (segment, account_id, transfer_id, created_at, position, text)
      select 0, account_id, transfer_id, created_at::timestamptz, c.position, text
        from moved, unnest(
          ${facts.map(({ account_id }) => account_id)}::text[],
          ${facts.map(({ transfer_id }) => transfer_id)}::text[],
          ${facts.map(({ created_at }) => created_at)}::text[],
          ${created.map(({ position }) => String(position))}::bigint[],
          ${facts.map(searchText)}::text[]
        ) as c(account_id, transfer_id, created_at, position, text)
        left join ${sql(schema)}.transfer_search_accounts a using (account_id)
       where c.position > coalesce(a.position, 0)
      returning account_id, created_at, position, length(text) as characters
    ),
    counted as (
      insert into ${sql(schema)}.transfer_search_accounts as a
        (account_id, recent, starts, ends, characters, position)
      select account_id, count(*), min(created_at), max(created_at), sum(characters), max(position)
        from added group by account_id
      on conflict (account_id) do update set
        recent = a.recent + excluded.recent, starts = least(a.starts, excluded.starts),
        ends = greatest(a.ends, excluded.ends),
        characters = a.characters + excluded.characters, position = excluded.position
    )`;
}
