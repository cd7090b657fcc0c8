import type { Sql, Transaction } from '../adapters/postgres/connect.ts';

/**
 * Reads from one snapshot, with plans for the values of each statement. Postgres plans a statement
 * that was run five times for any values. Such a plan cannot use an index for the start of a text,
 * and does not know whether a filter leaves few rows or many.
 */
export function withCustomPlans<Result>(
  sql: Sql,
  read: (tx: Transaction) => Promise<Result>,
): Promise<Result> {
  return sql.begin('isolation level repeatable read read only', async (tx) => {
    await tx`set local plan_cache_mode = force_custom_plan`;
    return read(tx);
  }) as Promise<Result>;
}
