import type { EventStore } from '../adapters/event-store/port.ts';
import type { Queryable, Sql } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/event.ts';

/** Told after every commit that moved a checkpoint, to whoever waits for a position: `NAME:POSITION`. */
export const CHECKPOINT_CHANNEL = 'waybill_checkpoint';

export type CheckpointTable = 'read.checkpoints' | 'work.checkpoints';

/** How far a consumer of the log has come. */
export interface Checkpoint {
  logId: string;
  /** Everything up to here, inclusive, is done; 0 before the first event. */
  position: bigint;
  version: number;
  /** The last event that was given; null before the first. */
  event: { id: string; stream: string; revision: number } | null;
}

/** Another consumer of the same name, or a rebuild, has moved the checkpoint: load it again. */
export class CheckpointMoved extends Error {
  override readonly name = 'CheckpointMoved';
}

/** The checkpoint does not belong to this log. The message names the remedy. */
export class WrongLog extends Error {
  override readonly name = 'WrongLog';
}

interface Row {
  log_id: string;
  position: bigint;
  version: number;
  event_id: string | null;
  event_stream: string | null;
  event_revision: number | null;
}

export async function loadCheckpoint(sql: Queryable, table: CheckpointTable, name: string): Promise<Checkpoint | null> {
  const [row] = await sql<Row[]>`
    select log_id, position, version, event_id, event_stream, event_revision from ${sql(table)} where name = ${name}`;
  if (!row) return null;
  const event =
    row.event_id === null ? null : { id: row.event_id, stream: row.event_stream as string, revision: row.event_revision as number };
  return { logId: row.log_id, position: row.position, version: row.version, event };
}

/** A checkpoint before the first event; leaves one that is there. */
export async function startCheckpoint(sql: Queryable, table: CheckpointTable, name: string, logId: string, version: number): Promise<void> {
  await sql`
    insert into ${sql(table)} (name, version, log_id, position) values (${name}, ${version}, ${logId}, 0)
    on conflict (name) do nothing`;
}

/** Moves a checkpoint within the transaction of what it stands for, and tells of it. Throws CheckpointMoved where it is not where it was left. */
export async function moveCheckpoint(
  tx: Queryable,
  table: CheckpointTable,
  name: string,
  from: bigint,
  to: bigint,
  last: StoredEvent | null,
): Promise<void> {
  const moved = await tx`
    update ${tx(table)} set
      position = ${to}, updated_at = now(),
      event_id = coalesce(${last?.id ?? null}, event_id),
      event_stream = coalesce(${last?.stream ?? null}, event_stream),
      event_revision = coalesce(${last?.revision ?? null}::integer, event_revision)
    where name = ${name} and position = ${from}
    returning pg_notify(${CHECKPOINT_CHANNEL}, ${`${name}:${to}`})`;
  if (moved.count === 0) throw new CheckpointMoved(`${name} is no longer at position ${from}`);
}

/** Throws WrongLog where a checkpoint was made on another log, or on one that has since been put back to an older state. */
export async function verifyCheckpoint(store: EventStore, name: string, checkpoint: Checkpoint, logId: string): Promise<void> {
  const remedy = `Connect the log that this database belongs to, or make its tables anew from this one: waybill projections rebuild ${name}`;
  if (checkpoint.logId !== logId) {
    throw new WrongLog(`The checkpoint of ${name} belongs to log ${checkpoint.logId}, and this is log ${logId}. ${remedy}`);
  }
  const restored = `an older copy of the log was restored. ${remedy}`;
  if (checkpoint.position > ((await store.head()) ?? 0n)) {
    throw new WrongLog(`${name} has come to position ${checkpoint.position}, where this log has not been: ${restored}`);
  }
  const { event } = checkpoint;
  if (event === null) return;
  const [found] = await store.read(event.stream, event.revision);
  if (found?.id !== event.id) {
    throw new WrongLog(`${name} has seen event ${event.id}, which this log does not hold: ${restored}`);
  }
}

/** How far each consumer of the installation has come, by name. Those of a rebuild that is under way are left out. */
export async function listCheckpoints(sql: Sql): Promise<{ name: string; version: number; position: bigint; updated_at: string }[]> {
  return sql`
    select name, version, position, updated_at from read.checkpoints where name not like '%:%'
    union all select name, version, position, updated_at from work.checkpoints order by name`;
}
