/*
 * How many transfers each hour has, for totals and for the places of pages.
 */
import type { Fragment, Queryable } from '../../adapters/postgres/connect.ts';
import { instantOf, timesOf } from '../lists.ts';
import { asksMoreThan, rowMatches, statusMatches, type TransferFilter } from './filter.ts';

const HOUR_MS = 3_600_000;

/** True if the hourly counts know how many transfers match. They know nothing of a destination. */
export function areCountedByHour(filter: TransferFilter): boolean {
  return !asksMoreThan(filter, 'status', 'from', 'to', 'destination', 'q');
}

/**
 * Returns the query of the spans of time with matches: `starts`, `ends` (exclusive) and the number
 * of `transfers`. Whole hours come from the counts, if they are counted by hour.
 */
export function countedSpans(
  sql: Queryable,
  accountId: string,
  filter: Omit<TransferFilter, 'destination' | 'q'>,
): Fragment {
  const spans = areCountedByHour(filter) ? hourly(filter) : [whole(filter)];
  const counted = spans.filter(({ exact }) => !exact);
  const exact = spans.filter((span) => span.exact);
  return sql`
    select hour as starts, hour + interval '1 hour' as ends, sum(transfers)::bigint as transfers
      from read.transfer_counts
      join ${asTable(sql, counted)} on hour >= s.starts and hour < s.ends
     where account_id = ${accountId} ${statusMatches(sql, filter)}
     group by hour having sum(transfers) > 0
    union all
    select s.starts, s.ends, (
        select count(*) from read.transfers
         where account_id = ${accountId} ${statusMatches(sql, filter)} ${rowMatches(sql, filter)}
           and created_at >= s.starts and created_at < s.ends)
      from ${asTable(sql, exact)}`;
}

/**
 * Returns the query of how many transfers each hour has, by status: `hour`, which is when it begins,
 * `status` and `transfers`. An hour has several rows of a status.
 */
export function countedHours(
  sql: Queryable,
  accountId: string,
  filter: Pick<TransferFilter, 'from' | 'to'>,
): Fragment {
  const spans = hourly(filter);
  const counted = spans.filter(({ exact }) => !exact);
  const exact = spans.filter((span) => span.exact);
  return sql`
    select hour, status, transfers
      from read.transfer_counts
      join ${asTable(sql, counted)} on hour >= s.starts and hour < s.ends
     where account_id = ${accountId} and transfers <> 0
    union all
    select date_trunc('hour', created_at, 'UTC'), status, 1
      from ${asTable(sql, exact)}
      join read.transfers on account_id = ${accountId}
       and created_at >= s.starts and created_at < s.ends`;
}

interface Span {
  /** Inclusive. */
  from: string;
  /** Exclusive. */
  to: string;
  /** True: counted row by row. False: whole hours, taken from the counts. */
  exact: boolean;
}

function asTable(sql: Queryable, spans: Span[]): Fragment {
  return sql`
    unnest(${spans.map(({ from }) => from)}::text[]::timestamptz[],
           ${spans.map(({ to }) => to)}::text[]::timestamptz[]) as s(starts, ends)`;
}

function whole(filter: Pick<TransferFilter, 'from' | 'to'>): Span {
  const { from, beyond } = timesOf(filter);
  return { from, to: beyond, exact: true };
}

/** Splits the filter into one span of whole hours and the partial hours at both ends. */
function hourly(filter: Pick<TransferFilter, 'from' | 'to'>): Span[] {
  const { from, to } = whole(filter);
  const firstHour =
    from === '-infinity' ? from : instantOf(Math.ceil(Date.parse(from) / HOUR_MS) * HOUR_MS);
  const lastHour =
    to === 'infinity' ? to : instantOf(Math.floor(Date.parse(to) / HOUR_MS) * HOUR_MS);
  if (filter.from !== undefined && filter.to !== undefined && firstHour > lastHour)
    return [{ from, to, exact: true }];
  const spans: Span[] = [{ from: firstHour, to: lastHour, exact: false }];
  if (firstHour !== from) spans.push({ from, to: firstHour, exact: true });
  if (lastHour !== to) spans.push({ from: lastHour, to, exact: true });
  return spans;
}
