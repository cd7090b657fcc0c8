/*
 * Rebuilds or verifies a projection while the live tables serve readers.
 *
 * Steps of a rebuild:
 * 1. Create the tables in the shadow schema `rebuild_NAME`, with a checkpoint `NAME:rebuild`.
 * 2. Fold the whole log into them, batch by batch. Each batch moves that checkpoint.
 * 3. Compare the live rows with the shadow rows, as of a position that both have reached. At the
 *    same time create the indexes that only queries need.
 * 4. Catch up, then take over in one short transaction: lock both checkpoints, fold the last
 *    events, replace the live tables, and rename the checkpoint. The live consumer finds its
 *    checkpoint moved and continues from the new one.
 * A verification does steps 1 to 3 without the indexes. Both drop the shadow schema at the end.
 *
 * What can go wrong:
 * - The process ends, or loses its lock. The live tables are unchanged. The next run drops the rest
 *   and starts over.
 * - Queries hold a live table for more than 300 ms. The take-over rolls back, and runs again after
 *   another catch-up.
 * - A reader has a snapshot from before the take-over. The new tables would not show it their newest
 *   rows. So a read of several statements locks a table first (custom-plan.ts). A single statement
 *   takes its snapshot after its locks.
 * - The log does not answer during the take-over. It fails after 20 s, before Postgres ends the
 *   waiting transaction, and the live consumer continues.
 * - The live tables have another version, so other columns. A rebuild then compares nothing, and a
 *   verification fails.
 *
 * It relies on an advisory lock for each projection (one rebuild or verification at a time), and on
 * `Projection.apply`, which ignores events that it has folded before.
 */
import type { Sql, Transaction } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { loadCheckpoint, startCheckpoint } from '../checkpoint.ts';
import { type ConsumerDeps, lockOf } from '../consumer.ts';
import type { Difference, Projection } from '../projection.ts';
import { LIVE_SCHEMA, PROJECTIONS } from '../read-models.ts';
import { leavingAfter } from '../retention/removed-transfers.ts';
import { catchUp } from './catch-up.ts';
import { inWords } from './difference-words.ts';

const DIFFERENCES_SHOWN = 20;
/** Each is sorted by two processes of Postgres at most, and written by one. */
const INDEXES_AT_ONCE = 2;
/** A table was locked for too long, or by a consumer that waited for the take-over. */
const LOCKED = ['55P03', '40P01'];

export interface RebuildProgress {
  events: number;
  /** Share of the log that has been read, 0 to 1. */
  share: number;
  eventsPerSecond: number;
  secondsLeft: number | null;
}

export interface Comparison {
  events: number;
  /** False if the live tables were of another version: `differences` is empty then. */
  compared: boolean;
  /** Keys of live rows that differ from the log, at most 20. Empty if all agree. */
  differences: string[];
  /** What differs in each of these rows, in words. */
  details: string[];
}

/**
 * Rebuilds a projection in shadow tables, compares them with the live tables, and switches over in
 * one transaction. The API serves meanwhile. Throws `unavailable` while another rebuild or
 * verification of the same projection runs.
 */
export function rebuildProjection(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
): Promise<Comparison> {
  return withShadow(deps, name, onProgress, async (shadow) => {
    const [differences] = await Promise.all([
      compare(deps, shadow),
      prepareForQueries(deps.sql, shadow),
      // Autovacuum ends a second after this asks for its lock, so the take-over need not wait.
      deps.sql.begin((tx) => stopVacuum(tx, shadow.projection)),
    ]);
    await shadow.catchUp();
    while (!(await takeOver(deps, shadow))) await shadow.catchUp();
    return differences;
  });
}

/**
 * Rebuilds a projection in shadow tables, compares them with the live tables, and drops them.
 * Throws `unavailable` as a rebuild does, and if the live tables are missing or of another version.
 */
export function verifyProjection(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
): Promise<Comparison> {
  return withShadow(deps, name, onProgress, async (shadow) => {
    const differences = await compare(deps, shadow);
    if (differences !== null) return differences;
    throw new DomainError(
      'unavailable',
      `The tables of ${name} are missing or of another version, so nothing was compared. ` +
        'A process with the role projector rebuilds them; try again when that is done',
    );
  });
}

interface Shadow {
  projection: Projection;
  schema: string;
  checkpoint: string;
  /** Reads to the current end of the log, in its own transactions or in `within`. */
  catchUp(within?: Transaction): Promise<void>;
}

async function withShadow(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
  then: (shadow: Shadow) => Promise<Difference[] | null>,
): Promise<Comparison> {
  const projection = PROJECTIONS[name];
  const held = await deps.locks.tryAcquire(lockOf(`${name}:rebuild`));
  if (!held)
    throw new DomainError(
      'unavailable',
      `Projection ${name} is being rebuilt or verified already; try again when that is done`,
    );
  const schema = `rebuild_${name}`;
  const checkpoint = `${name}:rebuild`;
  const drop = () =>
    deps.sql.begin(async (tx) => {
      await tx`drop schema if exists ${tx(schema)} cascade`;
      await tx`delete from read.checkpoints where name = ${checkpoint}`;
    });
  try {
    await drop();
    await deps.sql.begin(async (tx) => {
      await tx`create schema ${tx(schema)}`;
      await projection.create(tx, schema);
      // Autovacuum would scan the growing tables again and again, and find almost nothing: a
      // rebuild hardly ever writes a row twice.
      for (const table of await plainTables(tx, schema, projection))
        await tx`alter table ${tx(schema)}.${tx(table)} set (autovacuum_enabled = off)`;
      await startCheckpoint(tx, 'read.checkpoints', checkpoint, deps.logId, projection.version);
    });
    const meter = await createMeter(deps, onProgress);
    const shadow = {
      projection,
      schema,
      checkpoint,
      catchUp: (within?: Transaction) =>
        catchUp(deps, projection, { schema, checkpoint }, held.signal, meter.read, within),
    };
    await shadow.catchUp();
    const compared = await then(shadow);
    const differences = compared ?? [];
    return {
      events: meter.events(),
      compared: compared !== null,
      differences: differences.map(({ key }) => key),
      details: differences.map(inWords),
    };
  } finally {
    // Once the lock is lost, another process may rebuild in this schema. It begins with a drop.
    if (!held.signal.aborted)
      await drop().catch((error: unknown) =>
        deps.logger.warn({ err: error, projection: name }, 'a rebuild left its tables behind'),
      );
    await held.release();
  }
}

/**
 * Compares the live tables with the shadow tables, as of the last position that both have reached.
 * Either may be ahead of the other. Returns null if the live tables are of another version.
 */
function compare(
  { sql, store }: ConsumerDeps,
  { projection, schema, checkpoint }: Shadow,
): Promise<Difference[] | null> {
  return sql.begin('isolation level repeatable read', async (tx) => {
    const live = await loadCheckpoint(tx, 'read.checkpoints', projection.name);
    const rebuilt = await loadCheckpoint(tx, 'read.checkpoints', checkpoint);
    // Tables of another version have other columns, so a comparison is impossible.
    if (!live || live.version !== rebuilt?.version) return null;
    const both = live.position < rebuilt.position ? live.position : rebuilt.position;
    // The join of about 100,000 rows fits into this memory. A larger one spills to disk.
    await tx`set local work_mem = '32MB'`;
    const beyond = await rowsBeyond(tx, projection, live.position);
    const limit = DIFFERENCES_SHOWN - beyond.length;
    const leaving = await leavingAfter(store, both);
    const found = await projection.differences(tx, LIVE_SCHEMA, schema, both, limit, leaving);
    return [...beyond, ...found];
  }) as Promise<Difference[] | null>;
}

/**
 * Returns rows whose position the live tables have not reached. No event made them, and the
 * comparison would leave them out as rows that changed since.
 */
async function rowsBeyond(
  tx: Transaction,
  { tables }: Projection,
  reached: bigint,
): Promise<Difference[]> {
  const columns = await tx<{ table: string; key: string }[]>`
    select c.table_name as table, k.column_name as key
      from information_schema.columns c
      join information_schema.columns k using (table_schema, table_name)
     where c.table_schema = ${LIVE_SCHEMA} and c.table_name = any(${tables as string[]}::text[])
       and c.column_name = 'position' and k.ordinal_position = 1`;
  const found: Difference[] = [];
  for (const { table, key } of columns)
    found.push(
      ...(await tx<Difference[]>`
        select concat_ws(' ', ${table}::text, ${tx(key)}, 'at position', position) as key,
               to_jsonb(t) as live, null as log
          from ${tx(LIVE_SCHEMA)}.${tx(table)} t where position > ${reached}
         limit ${DIFFERENCES_SHOWN - found.length}`),
    );
  return found;
}

/**
 * Creates the indexes that were skipped to keep the fill fast, and analyzes the full tables.
 * Statistics of empty tables would mislead the planner.
 */
async function prepareForQueries(sql: Sql, { projection, schema }: Shadow): Promise<void> {
  const indexes = projection.indexes?.(sql, schema) ?? [];
  const createSome = async () => {
    for (let index = indexes.shift(); index; index = indexes.shift()) await index;
  };
  await Promise.all(Array.from({ length: INDEXES_AT_ONCE }, createSome));
  for (const table of projection.tables) await sql`analyze ${sql(schema)}.${sql(table)}`;
}

/**
 * Replaces the live tables with the shadow tables. Returns false if queries hold the live tables
 * for too long.
 */
async function takeOver(
  { sql }: ConsumerDeps,
  { projection, schema, checkpoint, catchUp }: Shadow,
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
      // The row lock blocks the live consumer. Later the consumer finds its checkpoint moved and
      // continues from the new one.
      await tx`
        select from read.checkpoints where name in (${projection.name}, ${checkpoint})
         order by name for update`;
      await catchUp(tx);
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
function stopVacuum(tx: Transaction, projection: Projection): Promise<void> {
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

/** Returns the tables that are not partitioned. Rows leave partitions, so those need autovacuum. */
async function plainTables(
  tx: Transaction,
  schema: string,
  { tables }: Projection,
): Promise<string[]> {
  const rows = await tx<{ name: string }[]>`
    select relname as name from pg_class
     where relnamespace = ${schema}::text::regnamespace and relkind = 'r'
       and relname = any(${tables}::text[])`;
  return rows.map(({ name }) => name);
}

async function partitionsOf(tx: Transaction, schema: string, table: string): Promise<string[]> {
  const rows = await tx<{ name: string }[]>`
    select relname as name from pg_inherits join pg_class on oid = inhrelid
     where inhparent = ${`${schema}.${table}`}::text::regclass`;
  return rows.map(({ name }) => name);
}

async function createMeter(
  { store }: ConsumerDeps,
  onProgress: (progress: RebuildProgress) => void,
) {
  const head = Number((await store.head()) ?? 0n);
  const started = performance.now();
  let events = 0;
  return {
    events: () => events,
    read(count: number, position: bigint) {
      events += count;
      const seconds = (performance.now() - started) / 1_000;
      const share = head === 0 ? 1 : Math.min(1, Number(position) / head);
      const secondsLeft = share > 0 ? (seconds / share) * (1 - share) : null;
      onProgress({
        events,
        share,
        eventsPerSecond: Math.round(events / Math.max(seconds, 0.001)),
        secondsLeft,
      });
    },
  };
}
