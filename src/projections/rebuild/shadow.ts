import type { Transaction } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { loadCheckpoint, startCheckpoint } from '../checkpoint.ts';
import { type ConsumerDeps, lockOf } from '../consumer.ts';
import type { Difference, Projection } from '../projection.ts';
import { PROJECTIONS } from '../read-models.ts';
import { inWords } from './difference-words.ts';
import { foldToEnd } from './fold-to-end.ts';

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

export interface Shadow {
  projection: Projection;
  schema: string;
  checkpoint: string;
  /** Aborts when another process may rebuild the projection, or when the installation closes. */
  signal: AbortSignal;
  /** Reads to the current end of the log, in its own transactions or in `within`. */
  foldToEnd(within?: Transaction): Promise<void>;
}

/**
 * Fills shadow tables from the whole log, calls `then`, and drops what is left of them. Throws
 * `unavailable` while another rebuild or verification of the projection runs, and if a newer version
 * made the live tables.
 */
export async function withShadow(
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
    const live = await loadCheckpoint(deps.sql, 'read.checkpoints', name);
    if (live && live.version > projection.version)
      throw new DomainError(
        'unavailable',
        `A newer version of Waybill made the tables of ${name}: rebuild and verify them with it`,
      );
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
      signal: held.signal,
      foldToEnd: (within?: Transaction) =>
        foldToEnd(deps, projection, { schema, checkpoint }, held.signal, meter.read, within),
    };
    await shadow.foldToEnd();
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

/** Returns the tables that are not partitioned. Rows leave partitions, so those need autovacuum. */
export async function plainTables(
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
