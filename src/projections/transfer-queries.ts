import type { Sql } from '../adapters/postgres/connect.ts';
import type { AttemptFigures, Transfer, TransferStatus } from '../domain/transfer.ts';

const HOUR_MS = 3_600_000;

export interface TransferFilter {
  status?: TransferStatus | undefined;
  /** Created at or after this instant, ISO 8601. */
  from?: string | undefined;
  /** Created at or before this instant, ISO 8601. */
  to?: string | undefined;
  /** Start of the destination, taken literally. */
  destination?: string | undefined;
}

export interface Page {
  limit: number;
  offset: number;
}

/**
 * A page of an account's transfers, newest first, and how many match in all, from one snapshot. The
 * hourly counts tell in which hour the offset falls, so that a page far down costs no more than the first.
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
  const ofStatus = filter.status === undefined ? sql`` : sql`and status = ${filter.status}`;
  const ofDestination = filter.destination === undefined ? sql`` : sql`and destination ^@ ${filter.destination}`;
  const rows = await sql<{ total: bigint | null; state: Transfer | null }[]>`
    with spans as (
      select hour as starts, hour + interval '1 hour' as ends, sum(transfers)::bigint as transfers
        from read.transfer_counts
        join unnest(${counted.map(({ from }) => from)}::text[]::timestamptz[], ${counted.map(({ to }) => to)}::text[]::timestamptz[])
          as s(starts, ends) on hour >= s.starts and hour < s.ends
       where account_id = ${accountId} ${ofStatus}
       group by hour having sum(transfers) > 0
      union all
      select s.starts, s.ends, (
          select count(*) from read.transfers
           where account_id = ${accountId} ${ofStatus} ${ofDestination} and created_at >= s.starts and created_at < s.ends)
        from unnest(${exact.map(({ from }) => from)}::text[]::timestamptz[], ${exact.map(({ to }) => to)}::text[]::timestamptz[]) as s(starts, ends)
    ),
    running as (
      select ends, sum(transfers) over (order by starts desc) - transfers as before from spans
    ),
    entry as (
      select ends, before from running where before <= ${page.offset} order by before desc, ends limit 1
    ),
    page as (
      select state, created_at, transfer_id from read.transfers
       where account_id = ${accountId} ${ofStatus} ${ofDestination}
         and created_at >= (select min(starts) from spans) and created_at < (select ends from entry)
       order by created_at desc, transfer_id desc
       limit ${page.limit} offset ${page.offset}::bigint - (select before from entry)
    )
    select sum(transfers)::bigint as total, null as state, null::timestamptz as created_at, null as transfer_id from spans
    union all
    select null, state, created_at, transfer_id from page
    order by created_at desc nulls first, transfer_id desc`;
  return { transfers: rows.slice(1).map(({ state }) => state as Transfer), total: Number(rows[0]?.total ?? 0) };
}

interface Span {
  /** Inclusive. */
  from: string;
  /** Exclusive. */
  to: string;
  /** Counted row by row; otherwise whole hours, taken from the counts. */
  exact: boolean;
}

function whole(filter: TransferFilter): Span {
  return { from: filter.from ?? '-infinity', to: filter.to === undefined ? 'infinity' : after(filter.to), exact: true };
}

/** The hours that lie within the filter as one span, and what of an hour sticks out at either end. */
function hourly(filter: TransferFilter): Span[] {
  const { from, to } = whole(filter);
  const firstHour = from === '-infinity' ? from : iso(Math.ceil(Date.parse(from) / HOUR_MS) * HOUR_MS);
  const lastHour = to === 'infinity' ? to : iso(Math.floor(Date.parse(to) / HOUR_MS) * HOUR_MS);
  if (filter.from !== undefined && filter.to !== undefined && firstHour > lastHour) return [{ from, to, exact: true }];
  const spans: Span[] = [{ from: firstHour, to: lastHour, exact: false }];
  if (firstHour !== from) spans.push({ from, to: firstHour, exact: true });
  if (lastHour !== to) spans.push({ from: lastHour, to, exact: true });
  return spans;
}

/** The first instant after one given in milliseconds. */
function after(instant: string): string {
  return iso(Date.parse(instant) + 1);
}

/** As Postgres reads it: a year of five digits, which begins with a plus sign, it takes for something else. */
function iso(ms: number): string {
  const instant = new Date(ms).toISOString();
  return instant.startsWith('+') ? 'infinity' : instant;
}

export interface FoundTransfer {
  transfer: Transfer;
  /** How far it is at this moment; null where it is not moving. */
  moving: AttemptFigures | null;
}

/** One transfer of an account, with its live figures; null where there is none. */
export async function findTransfer(sql: Sql, accountId: string, transferId: string): Promise<FoundTransfer | null> {
  const [row] = await sql<
    { state: Transfer; moving: boolean; transferred_bytes: bigint; size_bytes: bigint | null; speed_bps: bigint | null }[]
  >`
    select t.state, j.claim_id is not null as moving, j.transferred_bytes, j.size_bytes, j.speed_bps
      from read.transfers t
      left join work.transfer_jobs j on j.transfer_id = t.transfer_id and t.status = 'in_progress' and j.claim_id = t.state ->> 'claim_id'
     where t.transfer_id = ${transferId} and t.account_id = ${accountId}`;
  if (!row) return null;
  const moving = {
    transferred_bytes: Number(row.transferred_bytes),
    size_bytes: row.size_bytes === null ? null : Number(row.size_bytes),
    speed_bps: row.speed_bps === null ? null : Number(row.speed_bps),
  };
  return { transfer: row.state, moving: row.moving ? moving : null };
}
