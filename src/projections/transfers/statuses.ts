import type { Queryable } from '../../adapters/postgres/connect.ts';
import { ENDED_STATUSES, OPEN_STATUSES } from '../../domain/transfers/transfer.ts';

/**
 * The statuses of open transfers as a list in SQL: `'pending', 'queued'`, and so on. It has no
 * parameter, so that a plan for any values can use an index with this condition.
 */
export function openStatuses(sql: Queryable) {
  return sql.unsafe(listOf(OPEN_STATUSES));
}

/** The statuses of transfers that have ended, in the same form. */
export function endedStatuses(sql: Queryable) {
  return sql.unsafe(listOf(ENDED_STATUSES));
}

function listOf(statuses: readonly string[]): string {
  return statuses.map((status) => `'${status}'`).join(', ');
}
