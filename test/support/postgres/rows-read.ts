import type { Queryable } from '../../../src/adapters/postgres/connect.ts';

/** Returns how many rows of a table, such as `log.events`, this transaction has read. */
export async function rowsRead(tx: Queryable, table: string): Promise<number> {
  const [read] = await tx<[{ rows: number }]>`
    select (seq_tup_read + idx_tup_fetch)::float8 as rows from pg_stat_xact_user_tables
     where relid = ${table}::regclass`;
  return read.rows;
}
