import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { SortOrder, Transfer } from '../../domain/transfers/transfer.ts';
import { withCustomPlans } from '../custom-plan.ts';
import { listByDestination } from './destination-list.ts';
import {
  inOrder,
  isAfter,
  isNewestFirst,
  type ListPlace,
  passes,
  rowMatches,
  type SortedPage,
  statusMatches,
  type TransferFilter,
  type TransferPage,
} from './filter.ts';
import { countedSpans } from './hours.ts';
import { SEARCH_COUNTED_TO, searchTransfers } from './search/queries.ts';

/** How many transfers `eachTransfer` reads at a time. */
const BATCH = 1_000;

/** Returns a page of an account's transfers, and the total of matches. */
export async function listTransfers(
  sql: Sql,
  accountId: string,
  { q, ...filter }: TransferFilter,
  { limit, offset, sort = '-created_at' }: SortedPage,
): Promise<TransferPage> {
  const page = { limit, offset, sort };
  const { destination } = filter;
  if (q === undefined)
    return destination === undefined
      ? listAll(sql, accountId, filter, page)
      : listByDestination(sql, accountId, { ...filter, destination }, page);
  const { places, ...total } = await searchTransfers(sql, {
    accountId,
    filter: { ...filter, q },
    order: sort,
    // One more shows whether there is another page.
    rows: offset + limit + 1,
    count: Math.max(SEARCH_COUNTED_TO, offset + limit + 1),
  });
  const transfers = await transfersAt(sql, places.slice(offset, offset + limit), sort);
  return { transfers, ...total };
}

/**
 * Yields all matches, or those after a place, some at a time. Each batch is a query of its own, so
 * transfers that are created meanwhile may be among them.
 */
export async function* eachTransfer(
  sql: Sql,
  accountId: string,
  { q, ...filter }: TransferFilter,
  sort: SortOrder = '-created_at',
  start: ListPlace | null = null,
): AsyncGenerator<Transfer[], void, void> {
  let after = start;
  do {
    const batch: { transfers: Transfer[]; last: ListPlace | null } =
      q === undefined
        ? await withCustomPlans(sql, (tx) => readBatch(tx, accountId, filter, sort, after))
        : await searchBatch(sql, accountId, { ...filter, q }, sort, after);
    if (batch.transfers.length > 0) yield batch.transfers;
    after = batch.last;
  } while (after !== null);
}

async function readBatch(
  sql: Queryable,
  accountId: string,
  filter: TransferFilter,
  sort: SortOrder,
  after: ListPlace | null,
) {
  const rows = await sql<(ListPlace & { state: Transfer })[]>`
    select transfer_id, created_at, state from read.transfers
     where ${passes(sql, accountId, filter)} and ${isAfter(sql, after, sort)}
     order by ${inOrder(sql, sort)} limit ${BATCH}`;
  return {
    transfers: rows.map(({ state }) => state),
    last: rows.length < BATCH ? null : (rows.at(-1) as ListPlace),
  };
}

async function searchBatch(
  sql: Sql,
  accountId: string,
  filter: TransferFilter & { q: string },
  order: SortOrder,
  after: ListPlace | null,
) {
  const search = { accountId, filter, order, after, rows: BATCH, count: BATCH, thorough: true };
  const { places } = await searchTransfers(sql, search);
  return {
    transfers: await transfersAt(sql, places, order),
    last: places.length < BATCH ? null : (places.at(-1) as ListPlace),
  };
}

async function transfersAt(sql: Sql, places: ListPlace[], order: SortOrder): Promise<Transfer[]> {
  if (places.length === 0) return [];
  const rows = await sql<{ state: Transfer }[]>`
    select state from read.transfers
     where transfer_id = any(${places.map(({ transfer_id }) => transfer_id)}::text[])
     order by ${inOrder(sql, order)}`;
  return rows.map(({ state }) => state);
}

/**
 * Returns a page and the total from one snapshot. The hourly counts show in which hour the offset
 * lies, so a late page costs no more than the first.
 */
async function listAll(
  sql: Sql,
  accountId: string,
  filter: TransferFilter,
  page: Required<SortedPage>,
): Promise<TransferPage> {
  const matches = sql`${statusMatches(sql, filter)} ${rowMatches(sql, filter)}`;
  const newestFirst = isNewestFirst(page.sort);
  const rows = await sql<{ total: bigint | null; state: Transfer | null }[]>`
    with spans as (
      ${countedSpans(sql, accountId, filter)}
    ),
    running as (
      select starts, ends,
             sum(transfers) over (order by ${newestFirst ? sql`starts desc` : sql`starts`})
               - transfers as before
        from spans
    ),
    entry as (
      select starts, ends, before from running
       where before <= ${page.offset}
       order by before desc, ${newestFirst ? sql`ends` : sql`starts desc`} limit 1
    ),
    -- only keys: the rows before the offset are read from the index alone
    page as (
      select created_at, transfer_id from read.transfers
       where account_id = ${accountId} ${matches}
         and created_at >= (select ${newestFirst ? sql`min(starts) from spans` : sql`starts from entry`})
         and created_at < (select ${newestFirst ? sql`ends from entry` : sql`max(ends) from spans`})
       order by ${inOrder(sql, page.sort)}
       limit ${page.limit} offset ${page.offset}::bigint - (select before from entry)
    )
    select coalesce(sum(transfers), 0)::bigint as total, null as state,
           null::timestamptz as created_at, null as transfer_id
      from spans
    union all
    select null, state, created_at, transfer_id
      from page join read.transfers using (created_at, transfer_id)
    order by total nulls last, ${inOrder(sql, page.sort)}`;
  return {
    transfers: rows.slice(1).map(({ state }) => state as Transfer),
    total: Number(rows[0]?.total ?? 0),
  };
}
