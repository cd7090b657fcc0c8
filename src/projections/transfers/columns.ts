/*
 * Indexed expressions over a row of `transfers`, each with the condition of its index. A query
 * needs both, or it reads the whole table.
 *
 * A condition holds for all rows that have a value, and for few others. It looks at the status or
 * at the text of the state: otherwise Postgres would parse each row that is written or put into an
 * index. What it finds is near the start of that text, because `strpos` counts the characters up to
 * there: 5 µs at the end of a state. It has no parameter, so that a plan for any values can use the
 * index. The tables of an older version can answer both, too.
 */
import type { Queryable } from '../../adapters/postgres/connect.ts';

/** The transfer that a row repeats; null if it repeats none. */
export function retryOf(sql: Queryable) {
  return sql`((state -> 'facts' ->> 'retry_of') collate "C")`;
}

export function isRetry(sql: Queryable) {
  return sql`strpos(state::text, '"retry_of":null') = 0`;
}

/**
 * Whether another row repeats a row. The comparison of its value keeps the planner from a join, for
 * which it would read all retries.
 */
export function isRetried(sql: Queryable) {
  return sql`
    (exists (
      select from (
        select ${retryOf(sql)} as retry_of from read.transfers where ${isRetry(sql)}) r
       where r.retry_of = transfer_id))`;
}

/** The batch of a row; null if it belongs to none. */
export function batchOf(sql: Queryable) {
  return sql`((state -> 'facts' ->> 'batch_id') collate "C")`;
}

export function hasBatch(sql: Queryable) {
  return sql`strpos(state::text, '"batch_id":') > 0`;
}

/** The error with which a row has failed; that of its last attempt if it has not. */
export function errorCodeOf(sql: Queryable) {
  return sql`((state -> 'facts' -> 'error' ->> 'code') collate "C")`;
}

export function hasFailed(sql: Queryable) {
  return sql`status = 'failed'`;
}
