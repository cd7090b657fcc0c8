import type { Sql, Transaction } from '../adapters/postgres/connect.ts';
import type { ProjectionName } from '../commands/deps.ts';
import { DomainError } from '../domain/errors.ts';
import { upcast } from '../domain/upcast.ts';
import { loadCheckpoint, moveCheckpoint, startCheckpoint } from './checkpoint.ts';
import { type ConsumerDeps, lockOf } from './consumer.ts';
import type { Projection } from './projection.ts';
import { readAhead } from './read-ahead.ts';
import { LIVE_SCHEMA, PROJECTIONS } from './read-models.ts';

/** Larger than where the log is followed: more events of a transfer lie in one, and its row is written less often. */
const BATCH = 5_000;
const DIFFERENCES_SHOWN = 20;
const LOCK_NOT_AVAILABLE = '55P03';

export interface RebuildProgress {
  events: number;
  /** Share of the log that has been read, 0 to 1. */
  share: number;
  eventsPerSecond: number;
  secondsLeft: number | null;
}

export interface Comparison {
  events: number;
  /** Keys of rows of the live tables that are not as the log has them; 20 at most. Empty where all agree. */
  differences: string[];
}

/**
 * Makes a projection's tables anew beside the live ones, compares the two, and lets the new ones take
 * over in one transaction. The API serves meanwhile. Throws `unavailable` while another rebuild of the
 * same projection runs.
 */
export function rebuildProjection(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
): Promise<Comparison> {
  return besideLive(deps, name, onProgress, async (shadow) => {
    const [differences] = await Promise.all([compare(deps.sql, shadow), prepareForQueries(deps.sql, shadow)]);
    await shadow.catchUp();
    while (!(await takeOver(deps, shadow))) await shadow.catchUp();
    return differences;
  });
}

/** Makes a projection's tables anew, compares them with the live ones, and throws them away. */
export function verifyProjection(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
): Promise<Comparison> {
  return besideLive(deps, name, onProgress, (shadow) => compare(deps.sql, shadow));
}

interface Shadow {
  projection: Projection;
  schema: string;
  checkpoint: string;
  /** Reads to the end of the log as it is now; in transactions of its own, or within one. */
  catchUp(within?: Transaction): Promise<void>;
}

async function besideLive(
  deps: ConsumerDeps,
  name: ProjectionName,
  onProgress: (progress: RebuildProgress) => void,
  then: (shadow: Shadow) => Promise<string[]>,
): Promise<Comparison> {
  const projection = PROJECTIONS[name];
  const held = await deps.locks.tryAcquire(lockOf(`${name}:rebuild`));
  if (!held) throw new DomainError('unavailable', `Projection ${name} is being rebuilt or verified already; try again when that is done`);
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
      // Autovacuum would go through the growing tables again and again, for nothing: hardly a row is written twice.
      for (const table of projection.tables) await tx`alter table ${tx(schema)}.${tx(table)} set (autovacuum_enabled = off)`;
      await startCheckpoint(tx, 'read.checkpoints', checkpoint, deps.logId, projection.version);
    });
    const meter = await createMeter(deps, onProgress);
    const shadow = {
      projection,
      schema,
      checkpoint,
      catchUp: (within?: Transaction) => catchUp(deps, projection, schema, checkpoint, held.signal, meter.read, within),
    };
    await shadow.catchUp();
    const differences = await then(shadow);
    return { events: meter.events(), differences };
  } finally {
    await drop();
    await held.release();
  }
}

async function catchUp(
  { sql, store }: ConsumerDeps,
  projection: Projection,
  schema: string,
  checkpoint: string,
  signal: AbortSignal,
  read: (events: number, position: bigint) => void,
  within?: Transaction,
): Promise<void> {
  let from = (await loadCheckpoint(within ?? sql, 'read.checkpoints', checkpoint))?.position ?? 0n;
  const batches = store.subscribe({ from: from === 0n ? null : from, signal, batchSize: BATCH, streams: projection.streams });
  for await (const batch of readAhead(batches)) {
    if (batch.position > from) {
      const keep = async (tx: Transaction) => {
        // A crash of Postgres takes no more than a rebuild that is run again.
        await tx`set local synchronous_commit to off`;
        await moveCheckpoint(tx, 'read.checkpoints', checkpoint, from, batch.position, batch.events.at(-1) ?? null);
        await projection.apply(tx, schema, batch.events.map(upcast));
      };
      await (within ? keep(within) : sql.begin(keep));
      from = batch.position;
      read(batch.events.length, from);
    }
    if (batch.caughtUp) return;
  }
  throw new DomainError('unavailable', 'The connection to Postgres was lost in the middle of a rebuild; run it again');
}

/** The live tables held against the new ones, as of a position that both have reached: either may have come further. */
function compare(sql: Sql, { projection, schema, checkpoint }: Shadow): Promise<string[]> {
  return sql.begin('isolation level repeatable read', async (tx) => {
    const live = await loadCheckpoint(tx, 'read.checkpoints', projection.name);
    const rebuilt = await loadCheckpoint(tx, 'read.checkpoints', checkpoint);
    // Tables that another version made have other columns: they can't be compared.
    if (!live || live.version !== rebuilt?.version) return [];
    const both = live.position < rebuilt.position ? live.position : rebuilt.position;
    // What a join keeps of each row fits in there for some 100,000 rows; it goes to disk beyond.
    await tx`set local work_mem = '32MB'`;
    return projection.differences(tx, LIVE_SCHEMA, schema, both, DIFFERENCES_SHOWN);
  }) as Promise<string[]>;
}

/** Gives the full tables what they did without until here: it would have slowed down their filling, or have told of empty ones. */
async function prepareForQueries(sql: Sql, { projection, schema }: Shadow): Promise<void> {
  await sql.begin(async (tx) => {
    await projection.createIndexes?.(tx, schema);
    for (const table of projection.tables) await tx`analyze ${tx(schema)}.${tx(table)}`;
  });
}

/** Puts the new tables in the place of the live ones; false where queries did not let go of those in time. */
async function takeOver({ sql }: ConsumerDeps, { projection, schema, checkpoint, catchUp }: Shadow): Promise<boolean> {
  try {
    await sql.begin(async (tx) => {
      await stopVacuum(tx, projection);
      // The row lock holds the live consumer; it finds its checkpoint moved, and reads on from the new one.
      await tx`select from read.checkpoints where name in (${projection.name}, ${checkpoint}) order by name for update`;
      await catchUp(tx);
      // A query may have one table and want the next one. It must not be what a deadlock ends, nor wait for long.
      await tx`set local lock_timeout = '300ms'`;
      await replaceTables(tx, projection, schema);
      await tx`delete from read.checkpoints where name = ${projection.name}`;
      await tx`update read.checkpoints set name = ${projection.name} where name = ${checkpoint}`;
    });
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}

/**
 * Keeps autovacuum from the live tables until the transaction ends. It steps back from whoever has waited for it for a second,
 * which is longer than the swap may wait; for this lock no query has to.
 */
async function stopVacuum(tx: Transaction, { tables }: Projection): Promise<void> {
  const live = await tx<
    { table: string }[]
  >`select tablename as table from pg_tables where schemaname = ${LIVE_SCHEMA} and tablename = any(${tables}::text[])`;
  for (const { table } of live) await tx`lock table ${tx(LIVE_SCHEMA)}.${tx(table)} in share update exclusive mode`;
}

async function replaceTables(tx: Transaction, { tables }: Projection, schema: string): Promise<void> {
  for (const table of tables) {
    await tx`drop table if exists ${tx(LIVE_SCHEMA)}.${tx(table)}`;
    await tx`alter table ${tx(schema)}.${tx(table)} reset (autovacuum_enabled)`;
    await tx`alter table ${tx(schema)}.${tx(table)} set schema ${tx(LIVE_SCHEMA)}`;
  }
}

async function createMeter({ store }: ConsumerDeps, onProgress: (progress: RebuildProgress) => void) {
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
      onProgress({ events, share, eventsPerSecond: Math.round(events / Math.max(seconds, 0.001)), secondsLeft });
    },
  };
}
