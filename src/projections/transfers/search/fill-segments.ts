import type { Queryable, Transaction } from '../../../adapters/postgres/connect.ts';
import type { RetentionRecorded } from '../../../domain/retention.ts';
import { createIndex } from './segment-index.ts';

/** A segment of longer texts than this has fewer of them, so that its index fits into memory. */
const CHARACTERS_PER_ROW = 600;

/** Returns those of the accounts that have enough rows for a segment, with `more` of them. */
export async function fullAccounts(
  sql: Queryable,
  schema: string,
  accounts: string[],
  segmentRows: number,
  more: number,
): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    select account_id
      from unnest(${accounts}::text[]) as n(account_id)
      left join ${sql(schema)}.transfer_search_accounts using (account_id)
     where coalesce(recent, 0) >= ${segmentRows - more}::integer
        or (recent > 0 and characters >= ${segmentRows * CHARACTERS_PER_ROW}::integer)`;
  return rows.map(({ account_id }) => account_id);
}

/** Moves the rows of an account from segment 0 to a segment of their own, with its index. */
export async function seal(tx: Transaction, schema: string, account: string): Promise<void> {
  const [last] = await tx<{ segment: number }[]>`
    select coalesce(max(segment), 0) as segment from ${tx(schema)}.transfer_search_segments`;
  const segment = (last?.segment ?? 0) + 1;
  // The rows fit into this memory. A smaller one spills to disk.
  await tx`set local work_mem = '32MB'`;
  await tx`
    with gone as (
      delete from ${tx(schema)}.transfer_search
       where segment = 0 and account_id = ${account}
      returning transfer_id, created_at, position, text
    )
    insert into ${tx(schema)}.transfer_search
      (segment, number, account_id, transfer_id, created_at, position, text)
    select ${segment}::integer, row_number() over (order by created_at, transfer_id) - 1,
           ${account}, transfer_id, created_at, position, text
      from gone order by created_at, transfer_id`;
  const texts = await createIndex(tx, schema, segment);
  await tx`
    insert into ${tx(schema)}.transfer_search_segments (segment, account_id, starts, ends, texts)
    select ${segment}::integer, ${account}, min(created_at), max(created_at), ${texts}::integer
      from ${tx(schema)}.transfer_search where segment = ${segment}`;
  await tx`
    update ${tx(schema)}.transfer_search_accounts
       set recent = 0, starts = null, ends = null, characters = 0
     where account_id = ${account}`;
}

/**
 * Removes transfers that leave the log. They ended before a certain time, so only segments that
 * begin before it have any. A segment without rows goes too.
 */
export async function removeRows(
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

/** Updates what the list of segments says about one, or removes it if it is empty. */
async function shrink(tx: Transaction, schema: string, segment: number): Promise<void> {
  const left = await tx`
    update ${tx(schema)}.transfer_search_segments s set starts = l.starts, ends = l.ends
      from (select min(created_at) as starts, max(created_at) as ends
              from ${tx(schema)}.transfer_search where segment = ${segment}) l
     where s.segment = ${segment} and l.starts is not null`;
  if (left.count > 0) return;
  await tx`delete from ${tx(schema)}.transfer_search_segments where segment = ${segment}`;
  await tx`delete from ${tx(schema)}.transfer_search_trigrams where segment = ${segment}`;
}
