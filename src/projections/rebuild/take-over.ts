import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { ConsumerDeps } from '../consumer.ts';
import type { Projection } from '../projection.ts';
import { LIVE_SCHEMA } from '../read-models.ts';
import { plainTables, type Shadow } from './shadow.ts';

/** A table was locked for too long, or by a consumer that waited for the take-over. */
const LOCKED = ['55P03', '40P01'];

/**
 * Replaces the live tables with the shadow tables. Returns false if queries hold the live tables
 * for too long.
 */
export async function takeOver(
  { sql }: ConsumerDeps,
  { projection, schema, checkpoint, foldToEnd }: Shadow,
): Promise<boolean> {
  try {
    await sql.begin(async (tx) => {
      await stopVacuum(tx, projection);
      // A query may hold one table and wait for the next. A deadlock must not end that query, and
      // the query must not wait long.
      await tx`set local lock_timeout = '300ms'`;
      // A consumer may lock the tables before its checkpoint: it must not hold one lock and wait
      // for the other. Readers continue.
      await lockTables(tx, projection, 'share row exclusive');
      // The row lock blocks the live consumer. Later the consumer finds a checkpoint of another
      // generation and continues from it, also at the same position.
      await tx`
        select from read.checkpoints where name in (${projection.name}, ${checkpoint})
         order by name for update`;
      await foldToEnd(tx);
      await replaceTables(tx, projection, schema);
      await tx`delete from read.checkpoints where name = ${projection.name}`;
      await tx`update read.checkpoints set name = ${projection.name} where name = ${checkpoint}`;
    });
    return true;
  } catch (error) {
    if (LOCKED.includes(String((error as { code?: unknown }).code))) return false;
    throw error;
  }
}

/**
 * Keeps autovacuum off the live tables until the transaction ends. Autovacuum yields only to a lock
 * request that has waited a second, and the swap may not wait that long. No query waits for this
 * lock.
 */
export function stopVacuum(tx: Transaction, projection: Projection): Promise<void> {
  return lockTables(tx, projection, 'share update exclusive');
}

async function lockTables(
  tx: Transaction,
  { tables }: Projection,
  mode: 'share update exclusive' | 'share row exclusive',
): Promise<void> {
  const live = await tx<{ table: string }[]>`
    select tablename as table from pg_tables
     where schemaname = ${LIVE_SCHEMA} and tablename = any(${tables}::text[])`;
  for (const { table } of live)
    await tx`lock table ${tx(LIVE_SCHEMA)}.${tx(table)} in ${tx.unsafe(mode)} mode`;
}

async function replaceTables(
  tx: Transaction,
  projection: Projection,
  schema: string,
): Promise<void> {
  const { tables } = projection;
  for (const table of await plainTables(tx, schema, projection))
    await tx`alter table ${tx(schema)}.${tx(table)} reset (autovacuum_enabled)`;
  for (const table of tables) {
    const partitions = await partitionsOf(tx, schema, table);
    await tx`drop table if exists ${tx(LIVE_SCHEMA)}.${tx(table)}`;
    for (const name of [table, ...partitions])
      await tx`alter table ${tx(schema)}.${tx(name)} set schema ${tx(LIVE_SCHEMA)}`;
  }
}

async function partitionsOf(tx: Transaction, schema: string, table: string): Promise<string[]> {
  const rows = await tx<{ name: string }[]>`
    select relname as name from pg_inherits join pg_class on oid = inhrelid
     where inhparent = ${`${schema}.${table}`}::text::regclass`;
  return rows.map(({ name }) => name);
}
