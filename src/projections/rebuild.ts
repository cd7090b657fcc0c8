import type { Sql, Transaction } from '../adapters/postgres/connect.ts';
import type { ProjectionName } from '../commands/deps.ts';
import { DomainError } from '../domain/errors.ts';
import { upcast } from '../domain/upcast.ts';
import { loadCheckpoint, moveCheckpoint, startCheckpoint } from './checkpoint.ts';
import { type ConsumerDeps, lockOf } from './consumer.ts';
import type { Projection } from './projection.ts';
import { LIVE_SCHEMA, PROJECTIONS } from './read-models.ts';

const BATCH = 2_000;
const DIFFERENCES_SHOWN = 20;

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
    const differences = await compare(deps.sql, shadow);
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
  /** Reads to the end of the log as it is now. */
  catchUp(): Promise<void>;
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
      await startCheckpoint(tx, 'read.checkpoints', checkpoint, deps.logId, projection.version);
    });
    const meter = await createMeter(deps, onProgress);
    const shadow = {
      projection,
      schema,
      checkpoint,
      catchUp: () => catchUp(deps, projection, schema, checkpoint, held.signal, meter.read),
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
): Promise<void> {
  let from = (await loadCheckpoint(sql, 'read.checkpoints', checkpoint))?.position ?? 0n;
  for await (const batch of store.subscribe({ from: from === 0n ? null : from, signal, batchSize: BATCH, streams: projection.streams })) {
    if (batch.position > from) {
      await sql.begin(async (tx) => {
        await moveCheckpoint(tx, 'read.checkpoints', checkpoint, from, batch.position, batch.events.at(-1) ?? null);
        await projection.apply(tx, schema, batch.events.map(upcast));
      });
      from = batch.position;
      read(batch.events.length, from);
    }
    if (batch.caughtUp) return;
  }
  throw new DomainError('unavailable', 'The connection to Postgres was lost in the middle of a rebuild; run it again');
}

/** The live tables as of where they are, held against the new ones, which have come at least as far. */
function compare(sql: Sql, { projection, schema }: Shadow): Promise<string[]> {
  return sql.begin('isolation level repeatable read', async (tx) => {
    const live = await loadCheckpoint(tx, 'read.checkpoints', projection.name);
    if (!live) return [];
    return projection.differences(tx, LIVE_SCHEMA, schema, live.position, DIFFERENCES_SHOWN);
  }) as Promise<string[]>;
}

/** Puts the new tables in the place of the live ones; false where those have come further meanwhile. */
async function takeOver({ sql }: ConsumerDeps, { projection, schema, checkpoint }: Shadow): Promise<boolean> {
  return (await sql.begin(async (tx) => {
    // The row lock holds the live consumer; it finds its checkpoint moved, and reads on from the new one.
    await tx`select from read.checkpoints where name in (${projection.name}, ${checkpoint}) order by name for update`;
    const live = await loadCheckpoint(tx, 'read.checkpoints', projection.name);
    const rebuilt = await loadCheckpoint(tx, 'read.checkpoints', checkpoint);
    if (!rebuilt || (live && live.logId === rebuilt.logId && live.position > rebuilt.position)) return false;
    await replaceTables(tx, projection, schema);
    await tx`delete from read.checkpoints where name = ${projection.name}`;
    await tx`update read.checkpoints set name = ${projection.name} where name = ${checkpoint}`;
    return true;
  })) as boolean;
}

async function replaceTables(tx: Transaction, { tables }: Projection, schema: string): Promise<void> {
  for (const table of tables) {
    await tx`drop table if exists ${tx(LIVE_SCHEMA)}.${tx(table)}`;
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
