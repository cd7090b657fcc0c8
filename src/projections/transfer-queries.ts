import type { Sql } from '../adapters/postgres/connect.ts';
import type { Transfer, TransferStatus } from '../domain/transfer.ts';

const HOUR_MS = 3_600_000;

export interface TransferFilter {
  status?: TransferStatus | undefined;
  /** Created at or after this instant, ISO 8601. */
  from?: string | undefined;
  /** Created at or before this instant, ISO 8601. */
  to?: string | undefined;
  /** Literal prefix of the destination. */
  destination?: string | undefined;
}

export interface Page {
  limit: number;
  offset: number;
}

/**
 * Returns a page of an account's transfers, newest first, and the total of matches, from one
 * snapshot. The hourly counts show in which hour the offset lies, so a late page costs no more than
 * the first.
 */
export async function listTransfers(
  sql: Sql,
  accountId: string,
  filter: TransferFilter,
  page: Page,
): Promise<{ transfers: Transfer[]; total: number }> {
  const spans = filter.destination === undefined ? hourly(filter) : [whole(filter)];
  const counted = spans.filter(({ exact }) => !exact);
  const exact = spans.filter((span) => span.exact);
  const statusMatches = filter.status === undefined ? sql`` : sql`and status = ${filter.status}`;
  const destinationMatches =
    filter.destination === undefined ? sql`` : sql`and destination ^@ ${filter.destination}`;
  const rows = await sql<{ total: bigint | null; state: Transfer | null }[]>`
    with spans as (
      select hour as starts, hour + interval '1 hour' as ends, sum(transfers)::bigint as transfers
        from read.transfer_counts
        join unnest(${counted.map(({ from }) => from)}::text[]::timestamptz[],
                    ${counted.map(({ to }) => to)}::text[]::timestamptz[])
          as s(starts, ends) on hour >= s.starts and hour < s.ends
       where account_id = ${accountId} ${statusMatches}
       group by hour having sum(transfers) > 0
      union all
      select s.starts, s.ends, (
          select count(*) from read.transfers
           where account_id = ${accountId} ${statusMatches} ${destinationMatches}
             and created_at >= s.starts and created_at < s.ends)
        from unnest(${exact.map(({ from }) => from)}::text[]::timestamptz[],
                    ${exact.map(({ to }) => to)}::text[]::timestamptz[]) as s(starts, ends)
    ),
    running as (
      select ends, sum(transfers) over (order by starts desc) - transfers as before from spans
    ),
    entry as (
      select ends, before from running
       where before <= ${page.offset} order by before desc, ends limit 1
    ),
    page as (
      select state, created_at, transfer_id from read.transfers
       where account_id = ${accountId} ${statusMatches} ${destinationMatches}
         and created_at >= (select min(starts) from spans)
         and created_at < (select ends from entry)
       order by created_at desc, transfer_id desc
       limit ${page.limit} offset ${page.offset}::bigint - (select before from entry)
    )
    select sum(transfers)::bigint as total, null as state,
           null::timestamptz as created_at, null as transfer_id
      from spans
    union all
    select null, state, created_at, transfer_id from page
    order by created_at desc nulls first, transfer_id desc`;
  return {
    transfers: rows.slice(1).map(({ state }) => state as Transfer),
    total: Number(rows[0]?.total ?? 0),
  };
}

interface Span {
  /** Inclusive. */
  from: string;
  /** Exclusive. */
  to: string;
  /** True: counted row by row. False: whole hours, taken from the counts. */
  exact: boolean;
}

function whole(filter: Pick<TransferFilter, 'from' | 'to'>): Span {
  return {
    from: filter.from ?? '-infinity',
    to: filter.to === undefined ? 'infinity' : after(filter.to),
    exact: true,
  };
}

/** Splits the filter into one span of whole hours and the partial hours at both ends. */
export function hourly(filter: Pick<TransferFilter, 'from' | 'to'>): Span[] {
  const { from, to } = whole(filter);
  const firstHour =
    from === '-infinity' ? from : iso(Math.ceil(Date.parse(from) / HOUR_MS) * HOUR_MS);
  const lastHour = to === 'infinity' ? to : iso(Math.floor(Date.parse(to) / HOUR_MS) * HOUR_MS);
  if (filter.from !== undefined && filter.to !== undefined && firstHour > lastHour)
    return [{ from, to, exact: true }];
  const spans: Span[] = [{ from: firstHour, to: lastHour, exact: false }];
  if (firstHour !== from) spans.push({ from, to: firstHour, exact: true });
  if (lastHour !== to) spans.push({ from: lastHour, to, exact: true });
  return spans;
}

/** Returns the next instant, with a resolution of one millisecond. */
function after(instant: string): string {
  return iso(Date.parse(instant) + 1);
}

/**
 * Formats an instant for Postgres, which misreads years of five digits (they start with a plus).
 */
function iso(ms: number): string {
  const instant = new Date(ms).toISOString();
  return instant.startsWith('+') ? 'infinity' : instant;
}
