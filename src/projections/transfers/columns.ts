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
import type { Fragment, Queryable } from '../../adapters/postgres/connect.ts';

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

/** The endpoint at which a row has failed: that of `endpointOfError`. */
export function errorEndpointOf(sql: Queryable) {
  return endpointOfError(sql, {
    code: sql`state -> 'facts' -> 'error' ->> 'code'`,
    phase: sql`state -> 'facts' -> 'error' ->> 'phase'`,
    expected_sha256: sql`state -> 'facts' ->> 'expected_sha256'`,
    source_endpoint_id: sql`state -> 'facts' ->> 'source_endpoint_id'`,
    destination_endpoint_id: sql`state -> 'facts' ->> 'destination_endpoint_id'`,
  });
}

/** The facts of a row, and those of its error, that `endpointOfError` asks for. */
interface FactsOfError {
  code: Fragment;
  phase: Fragment;
  expected_sha256: Fragment;
  source_endpoint_id: Fragment;
  destination_endpoint_id: Fragment;
}

/**
 * The endpoint at which a transfer has failed: its source, if that could not be read, changed, or is
 * not the expected file; else its destination. Null if no server was asked, or if an operator ended
 * the transfer.
 */
export function endpointOfError(sql: Queryable, of: FactsOfError) {
  return sql`
    ((case
        when ${of.phase} = 'prepare' then null
        when ${of.phase} ^@ 'source_' or ${of.phase} = 'read' or ${of.code} ^@ 'source_'
          or ${of.code} = 'checksum_mismatch' and ${of.expected_sha256} is not null
        then ${of.source_endpoint_id}
        else ${of.destination_endpoint_id}
      end) collate "C")`;
}

export function hasFailed(sql: Queryable) {
  return sql`status = 'failed'`;
}
