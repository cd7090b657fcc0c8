import { connect, type Sql } from './connect.ts';
import { LOCKS_LOST_AFTER_MS } from './locks.ts';

/**
 * Forces index scans. The best plan for an empty table is a full scan. A prepared statement keeps
 * that plan, and gets slower with every row. Without full scans, Postgres before 18 estimates such
 * high costs for a table without an index that it would compile the query, so `jit` is off too.
 */
export const INDEXED = { enable_seqscan: 'off', jit: 'off' };
/**
 * Commits are on disk a moment later. A repeated statement is planned once, for any number of rows.
 * A process that freezes within a transaction keeps its checkpoint locked. The next process must
 * not wait for that when it has the consumer's lock.
 */
const DERIVED = {
  ...INDEXED,
  synchronous_commit: 'off',
  plan_cache_mode: 'force_generic_plan',
  idle_in_transaction_session_timeout: LOCKS_LOST_AFTER_MS,
};

/** The pools of one installation. */
export interface Pools {
  /** Every commit is on disk before its answer. */
  sql: Sql;
  /** Commits are on disk a moment later. For tables that follow the log, and their checkpoints. */
  derived: Sql;
  /**
   * For the statements of rebuilds, which may take minutes. Waits for answers without a limit, also
   * if the role or the database has a `statement_timeout`: a rebuild would never come to its end.
   * Commits are on disk a moment later, or with the next commit of `sql`.
   */
  patient: Sql;
}

/** Creates the pools. Each connects with its first query. */
export function createPools(url: string): Pools {
  const sql = connect(url, { max: 20, settings: INDEXED });
  const derived = connect(url, { max: 20, settings: DERIVED, listener: sql });
  const patient = connect(url, {
    max: 5,
    settings: { ...INDEXED, synchronous_commit: 'off', statement_timeout: '0' },
    answerWithinMs: null,
    listener: sql,
  });
  return { sql, derived, patient };
}

/** Closes the pools. Queries get 5 seconds to end. */
export async function closePools(pools: Pools): Promise<void> {
  await Promise.all(Object.values(pools).map((pool) => pool.end({ timeout: 5 })));
}
