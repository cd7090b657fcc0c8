import type { Sql, Transaction } from '../adapters/postgres/connect.ts';
import { DomainError } from '../domain/errors.ts';

/** SQLSTATE of a statement that ran into `statement_timeout`. */
const QUERY_CANCELED = '57014';

interface Reading {
  /** Postgres ends a statement that takes longer, and the read throws a DomainError. 0: no limit. */
  statementMs?: number;
  /** A table of the schema `read` of each projection that is read. */
  tables?: readonly string[];
}

/**
 * Reads from one snapshot, with plans for the values of each statement. Postgres plans a statement
 * that was run five times for any values. Such a plan cannot use an index for the start of a text,
 * and does not know whether a filter leaves few rows or many.
 *
 * A rebuild that replaces tables after the snapshot was taken would leave tables whose newest rows
 * the snapshot does not show. So the first statement locks a table of each projection, which no
 * rebuild can replace then. It takes no snapshot: the first query does.
 */
export async function withCustomPlans<Result>(
  sql: Sql,
  read: (tx: Transaction) => Promise<Result>,
  { statementMs = 0, tables = ['transfers'] }: Reading = {},
): Promise<Result> {
  const locked = tables.map((table) => `read.${table}`).join(', ');
  try {
    return (await sql.begin('isolation level repeatable read read only', async (tx) => {
      await tx.unsafe(
        `set local plan_cache_mode = force_custom_plan; set local statement_timeout = ${statementMs};
         lock table ${locked} in access share mode`,
      );
      return read(tx);
    })) as Result;
  } catch (error) {
    const { code } = error as { code?: unknown };
    throw statementMs > 0 && code === QUERY_CANCELED ? tookTooLong(statementMs, error) : error;
  }
}

/** Creates the error of a read that was given up after so many milliseconds. */
export function tookTooLong(ms: number, cause?: unknown): DomainError {
  const message =
    `The search takes longer than ${ms / 1_000} s: add a word, or narrow it with from_date and ` +
    'to_date';
  return new DomainError('unavailable', message, {}, { cause });
}
