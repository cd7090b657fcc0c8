import type { Sql, Transaction } from '../../../src/adapters/postgres/connect.ts';

/** Locked rows: other writers wait, for at most one minute. Then Postgres ends the lock. */
export interface RowLock {
  /** Returns how many queries with this text wait for it. */
  waiting(query: string): Promise<number>;
  /**
   * Releases the rows. First ends waiting queries that contain the text `ending`: a back end whose
   * client is dead would not notice, and would run its query when the lock is free.
   */
  release(options?: { ending?: string }): Promise<void>;
}

/** Locks the rows that a query with `for update` finds. */
export async function holdRows(
  sql: Sql,
  lock: (tx: Transaction) => Promise<unknown>,
): Promise<RowLock> {
  const held = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const transaction = sql.begin(async (tx) => {
    await lock(tx);
    held.resolve();
    await over.promise;
  });
  transaction.catch(held.reject);
  await held.promise;

  const waiters = (query: string) => sql<{ pid: number }[]>`
    select pid from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
       and position(${query} in query) > 0`;

  return {
    waiting: async (query) => (await waiters(query)).length,
    async release({ ending } = {}) {
      if (ending !== undefined) {
        for (const { pid } of await waiters(ending))
          await sql`select pg_terminate_backend(${pid}, 5000)`;
      }
      over.resolve();
      await transaction;
    },
  };
}

/** Runs work while each statement that needs this table gets no answer. */
export async function whileTableLocked<T>(
  sql: Sql,
  table: string,
  work: () => Promise<T>,
): Promise<T> {
  const lock = await holdRows(sql, (tx) => tx`lock table ${tx(table)} in access exclusive mode`);
  try {
    return await work();
  } finally {
    await lock.release();
  }
}
