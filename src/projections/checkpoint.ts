import type { Logger } from 'pino';
import type { EventStore } from '../adapters/event-store/port.ts';
import type { Fragment, Queryable, Sql } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { findEvent } from './newest-of-log.ts';

/**
 * Notified with `NAME:POSITION` at each commit that moved the checkpoint of a read model. `waitFor`
 * listens. Nothing waits for a process manager, and each `NOTIFY` wakes every process.
 */
export const CHECKPOINT_CHANNEL = 'waybill_checkpoint';

/** Notified with the name of a consumer whose checkpoint was set back. The running one listens. */
export const RESTART_CHANNEL = 'waybill_checkpoint_restart';

export type CheckpointTable = 'read.checkpoints' | 'work.checkpoints';

/** The position of a consumer of the log. */
export interface Checkpoint {
  logId: string;
  /** The consumer has processed everything up to here, inclusive. 0 before the first event. */
  position: bigint;
  version: number;
  /** Another one whenever the checkpoint is created again: by a restart, or for new tables. */
  generation: string;
  /** The last processed event. Null before the first. */
  event: { id: string; stream: string; revision: number } | null;
}

/**
 * Thrown if another consumer of the same name, or a rebuild, moved the checkpoint. Load it again.
 */
export class CheckpointMoved extends Error {
  override readonly name = 'CheckpointMoved';
}

/**
 * Thrown if a newer version of Waybill made the tables of a consumer. This version would write what
 * the newer one cannot read.
 */
export class NewerTables extends Error {
  override readonly name = 'NewerTables';
}

/** Thrown if the checkpoint does not belong to this log. The message names the remedy. */
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

export async function loadCheckpoint(
  sql: Queryable,
  table: CheckpointTable,
  name: string,
): Promise<Checkpoint | null> {
  const [row] = await sql<(Row & Pick<Checkpoint, 'generation'>)[]>`
    select log_id, position, version, generation, event_id, event_stream, event_revision
      from ${sql(table)} where name = ${name}`;
  return row ? { ...toCheckpoint(row), generation: row.generation } : null;
}

/** Returns the checkpoint of the read model that has come furthest; null before the first event. */
export async function furthestCheckpoint(
  sql: Queryable,
): Promise<Omit<Checkpoint, 'generation'> | null> {
  // Without the generation: this runs before a table of an older version gets that column.
  const [row] = await sql<Row[]>`
    select log_id, position, version, event_id, event_stream, event_revision
      from read.checkpoints where event_id is not null order by position desc limit 1`;
  return row ? toCheckpoint(row) : null;
}

/** Returns the id of the log that the furthest process manager follows; null if there is none. */
export async function furthestLog(sql: Queryable): Promise<string | null> {
  const [row] = await sql<Pick<Row, 'log_id'>[]>`
    select log_id from work.checkpoints order by position desc limit 1`;
  return row?.log_id ?? null;
}

function toCheckpoint(row: Row): Omit<Checkpoint, 'generation'> {
  const event =
    row.event_id === null
      ? null
      : {
          id: row.event_id,
          stream: row.event_stream as string,
          revision: row.event_revision as number,
        };
  return { logId: row.log_id, position: row.position, version: row.version, event };
}

/** Selects the `position` of a checkpoint, of one version if it is given. */
export function checkpointPosition(
  sql: Queryable,
  table: CheckpointTable,
  name: string,
  version?: number,
) {
  return sql`
    select position from ${sql(table)}
     where name = ${name} ${version === undefined ? sql`` : sql`and version = ${version}`}`;
}

/** Creates a checkpoint before the first event. Leaves an existing one as it is. */
export async function startCheckpoint(
  sql: Queryable,
  table: CheckpointTable,
  name: string,
  logId: string,
  version: number,
): Promise<void> {
  await sql`
    insert into ${sql(table)} (name, version, log_id, position)
    values (${name}, ${version}, ${logId}, 0)
    on conflict (name) do nothing`;
}

/**
 * Sets a consumer's checkpoint before the first event of a log, as for a new consumer. The running
 * one begins again at once, also if the log is quiet.
 */
export async function restartCheckpoint(
  sql: Queryable,
  { table, name, version }: { table: CheckpointTable; name: string; version: number },
  logId: string,
): Promise<void> {
  await sql`delete from ${sql(table)} where name = ${name}`;
  await startCheckpoint(sql, table, name, logId, version);
  await sql`select pg_notify(${RESTART_CHANNEL}, ${name})`;
}

/** A step of a checkpoint: the position that it is at, and the one that it moves to. */
export interface CheckpointMove {
  table: CheckpointTable;
  name: string;
  /** The version of the consumer. Tables of an older version serve until their rebuild is done. */
  version: number;
  /**
   * That of the checkpoint before the consumer read its rows. A take-over of a rebuild may leave
   * the position and replace the rows. Any by default, for a writer that read none.
   */
  generation?: string;
  from: bigint;
  to: bigint;
  /** The last event up to `to`. Null leaves the one before. */
  last: StoredEvent | null;
  /**
   * True if the log is in the same Postgres, and has all of these events. A failover may have lost
   * them since they were read.
   */
  isInLog?: boolean;
}

/**
 * Moves a checkpoint, in the transaction that writes the consumer's rows, and notifies waiters of a
 * read model. Throws CheckpointMoved if the checkpoint is no longer at `from`, if it was created
 * again, if a newer version made the tables, or if the log has lost the events.
 */
export async function moveCheckpoint(tx: Queryable, move: CheckpointMove): Promise<void> {
  await moveCheckpointWith(tx, move, () => tx``);
}

/**
 * Returns further CTEs of the statement that moves a checkpoint, each after a comma. They write
 * nothing unless the CTE `moved` has a row. A function, because a promise that resolves with a
 * fragment would run it.
 */
export type Writes = (sql: Queryable) => Fragment;

/** Moves a checkpoint and writes rows in one statement. Throws as `moveCheckpoint`. */
export async function moveCheckpointWith(
  sql: Queryable,
  { table, name, version, generation, from, to, last, isInLog = false }: CheckpointMove,
  writes: Writes,
): Promise<void> {
  const notified =
    table === 'read.checkpoints'
      ? sql`pg_notify(${CHECKPOINT_CHANNEL}, ${`${name}:${to}`})`
      : sql`true`;
  const moved = await sql`
    with moved as (
      update ${sql(table)} set
        position = ${to}, updated_at = now(),
        event_id = coalesce(${last?.id ?? null}, event_id),
        event_stream = coalesce(${last?.stream ?? null}, event_stream),
        event_revision = coalesce(${last?.revision ?? null}::integer, event_revision)
      where name = ${name} and position = ${from} and version <= ${version}
        ${generation === undefined ? sql`` : sql`and generation = ${generation}`}
        ${isInLog ? hasEvents(sql, to, last) : sql``}
      returning ${notified}
    )
    ${writes(sql)}
    select from moved`;
  if (moved.count === 0)
    throw new CheckpointMoved(
      `${name} is no longer at position ${from}, or has new tables, or the log has lost events`,
    );
}

/** Events are lost from the end of the log, so the last one shows that the others are there. */
function hasEvents(sql: Queryable, to: bigint, last: StoredEvent | null): Fragment {
  return last === null
    ? sql`and exists (select from log.head where head.position >= ${to})`
    : sql`
        and exists (select from log.head where head.position >= ${to})
        and exists (
          select from log.events e where e.position = ${last.position} and e.id = ${last.id})`;
}

/**
 * Returns the position after which a consumer continues. Throws WrongLog if the checkpoint belongs
 * to another log, or to a newer state of a restored log.
 *
 * A position beyond the head of the log alone proves nothing: older versions stored positions of an
 * EventStoreDB that no record has. If the log has the last event that the consumer processed, the
 * checkpoint moves back to that event, and the consumer continues there.
 */
export async function resumePosition(
  { sql, store, logId, logger }: { sql: Sql; store: EventStore; logId: string; logger: Logger },
  table: CheckpointTable,
  name: string,
  checkpoint: Checkpoint,
): Promise<bigint> {
  const { position, version } = checkpoint;
  const seen = await verifyCheckpoint(store, name, checkpoint, logId);
  const head = (await store.head()) ?? 0n;
  if (position <= head) return position;
  logger.warn(
    { consumer: name, position, head, resumed_at: seen },
    'a checkpoint is beyond the end of the log: an older copy of the log was restored, or an older ' +
      'version of Waybill stored it; moved it back to the last processed event',
  );
  await moveCheckpoint(sql, { table, name, version, from: position, to: seen, last: null });
  return seen;
}

/**
 * Returns the position of the last event that a checkpoint has processed, or 0 before the first.
 * Throws WrongLog if this is another log or does not have that event.
 */
export async function verifyCheckpoint(
  store: EventStore,
  name: string,
  { logId: ownLogId, event }: Omit<Checkpoint, 'generation'>,
  logId: string,
): Promise<bigint> {
  const rebuild = `rebuild its tables from this log: waybill projections rebuild ${name}`;
  if (ownLogId !== logId) {
    throw new WrongLog(
      `The checkpoint of ${name} belongs to log ${ownLogId}, and this is log ${logId}. ` +
        `Connect the log that this database belongs to, or ${rebuild}`,
    );
  }
  if (event === null) return 0n;
  const found = await findEvent(store, event);
  if (found?.id !== event.id) {
    throw new WrongLog(
      `${name} has processed event ${event.id}, which is not in this log: ` +
        `an older copy of the log was restored. Stop all processes and restore a newer copy. If ` +
        `there is none, follow "A restored older log" in docs/operators.md, and ${rebuild}`,
    );
  }
  return found.position;
}

/** Returns the checkpoints of all consumers, sorted by name. Omits those of running rebuilds. */
export async function listCheckpoints(
  sql: Sql,
): Promise<{ name: string; version: number; position: bigint; updated_at: string }[]> {
  return sql`
    select name, version, position, updated_at from read.checkpoints where name not like '%:%'
    union all
    select name, version, position, updated_at from work.checkpoints order by name`;
}
