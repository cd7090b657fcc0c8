import type { Sql } from '../../adapters/postgres/connect.ts';
import { UNAVAILABLE_RETRY_SECONDS } from '../problems.ts';

const WINDOW_SECONDS = 60;
/**
 * A window that began this much later than now, in seconds, counts as over: Postgres's clock has
 * stepped back. A statement that waited for the row may be a little late.
 */
const AHEAD_SECONDS = 10;
/** Requests per minute from one address without a valid key. */
export const PER_ADDRESS = 60;
/** Requests per minute of all console sessions of one key. Live pages send many requests. */
export const PER_CONSOLE = 1_200;
/** Used-up windows kept in memory, at most. */
const REMEMBERED = 10_000;

/** The state of a rate window after a request. */
export interface RateWindow {
  limit: number;
  /** Requests left after this one. Below 0 if this request is over the limit. */
  remaining: number;
  /** Epoch seconds at which the window ends. */
  reset: number;
  /** Whole seconds until `reset`, at least 1. */
  retryAfter: number;
}

/** A window as Postgres counts it, and the time of its clock. */
export interface WindowRow {
  subject: string;
  /** How many requests this row counts. */
  weight: number;
  /** Epoch seconds. */
  started: bigint;
  requests: number;
  /** Epoch seconds. */
  now: number;
}

/**
 * Returns the statement that counts the `weight` of `visitors` in the window of their `subject`. A
 * window lasts a minute from the subject's first request on, by Postgres's clock, for all
 * processes. Rows are written in the order of their subject, so that concurrent writers lock them
 * in one order.
 */
export function countRequests(sql: Sql) {
  const isOver = sql`
    (excluded.started >= w.started + ${WINDOW_SECONDS}
      or excluded.started < w.started - ${AHEAD_SECONDS})`;
  return sql`
    insert into work.rate_windows as w (subject, started, requests)
    select subject, floor(extract(epoch from clock_timestamp()))::bigint, sum(weight)
      from visitors group by subject order by subject
    on conflict (subject) do update set
      started = case when ${isOver} then excluded.started else w.started end,
      requests = case when ${isOver} then excluded.requests
                      else w.requests + excluded.requests end
    returning subject, started, requests`;
}

/** Removes windows that ended a minute ago or earlier. */
export async function removeOldWindows(sql: Sql): Promise<void> {
  await sql`
    delete from work.rate_windows
     where started < extract(epoch from now()) - ${2 * WINDOW_SECONDS}`;
}

/**
 * Gives each row the count after its own requests. Rows that were counted together come with the
 * count after the last of them.
 */
export function numberRequests(rows: WindowRow[]): void {
  const counts = new Map<string, number>();
  for (const row of rows.toReversed()) {
    row.requests = counts.get(row.subject) ?? row.requests;
    counts.set(row.subject, row.requests - row.weight);
  }
}

export function toWindow(
  { started, requests, now }: WindowRow,
  limit: number,
): { window: RateWindow; secondsLeft: number } {
  const reset = Number(started) + WINDOW_SECONDS;
  const secondsLeft = reset - now;
  const retryAfter = Math.max(1, Math.ceil(secondsLeft));
  return { window: { limit, remaining: limit - requests, reset, retryAfter }, secondsLeft };
}

/**
 * Remembers the last answer in a used-up window until the window ends, so that further requests are
 * rejected without a query. A full memory drops the oldest entry.
 */
export function createUsedUpWindows<Answer extends { window: RateWindow }>(): {
  /** Returns the answer with the seconds that are left now, or null. */
  find(subject: string): Answer | null;
  add(subject: string, answer: Answer, secondsLeft: number): void;
} {
  const usedUp = new Map<string, { answer: Answer; until: number }>();

  return {
    find(subject) {
      const known = usedUp.get(subject);
      if (!known) return null;
      const left = known.until - performance.now();
      if (left > 0) {
        const window = { ...known.answer.window, retryAfter: Math.ceil(left / 1000) };
        return { ...known.answer, window };
      }
      usedUp.delete(subject);
      return null;
    },
    add(subject, answer, secondsLeft) {
      const [oldest] = usedUp.keys();
      if (usedUp.size >= REMEMBERED && oldest !== undefined) usedUp.delete(oldest);
      usedUp.set(subject, { answer, until: performance.now() + secondsLeft * 1000 });
    },
  };
}

/** Returns the rate headers of an answer whose request cannot be counted. */
export function uncountedHeaders(limit: number): Record<string, string> {
  const reset = Math.floor(Date.now() / 1000) + UNAVAILABLE_RETRY_SECONDS;
  return rateHeaders({ limit, remaining: 0, reset });
}

export function rateHeaders({
  limit,
  remaining,
  reset,
}: Omit<RateWindow, 'retryAfter'>): Record<string, string> {
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(Math.max(0, remaining)),
    'x-ratelimit-reset': String(reset),
  };
}
