import type { Queryable, Transaction } from '../postgres/connect.ts';
import { ownLog } from './own-logs.ts';
import { type Engine, EventStoreSettingsError } from './port.ts';

const OTHER: Record<Engine, string> = {
  postgres:
    'The tables of this database follow the log in Postgres, not the one in this EventStoreDB. ' +
    'Remove EVENTSTORE_URL. To move the log, run waybill log copy --switch first',
  eventstoredb:
    'The tables of this database follow the log in an EventStoreDB, not the one in Postgres. ' +
    'Set EVENTSTORE_URL',
};

/** A log that the tables of a database have followed. */
export interface FollowedLog {
  /** Null if only the head of the embedded log shows that there was one. */
  logId: string | null;
  engine: Engine | null;
}

/**
 * Returns the log that the tables of this database follow; null for a new database. `logId` is that
 * of the furthest consumer; null if there is none yet.
 */
export async function followedLog(
  sql: Queryable,
  logId: string | null,
): Promise<FollowedLog | null> {
  const [followed] = await sql<FollowedLog[]>`
    select log_id as "logId", engine, 0 as nr from work.log_engines
     where ${logId}::text is null or log_id = ${logId}
    union all select null, 'postgres', 1 from log.head where position > 0
     order by nr limit 1`;
  if (logId === null) return followed ?? null;
  return { logId, engine: followed?.logId === logId ? followed.engine : null };
}

/** Throws EventStoreSettingsError if the tables follow a log in the other engine. */
export function refuseEngine(followed: Engine, configured: Engine): void {
  if (followed !== configured) throw new EventStoreSettingsError(OTHER[followed]);
}

/**
 * Compares the engine of a log with the one that the tables of this database follow. The first
 * engine that opens a log is that one. Throws EventStoreSettingsError, which says what to do, if it
 * is another: it may lack the latest events, and it has other positions.
 */
export async function requireEngine(sql: Queryable, logId: string, engine: Engine): Promise<void> {
  const [followed] = await sql<{ engine: Engine }[]>`
    with first as (
      insert into work.log_engines (log_id, engine) values (${logId}, ${engine})
      on conflict (log_id) do nothing
      returning engine
    )
    select engine from first
    union all select engine from work.log_engines where log_id = ${logId}`;
  // Another process stores the first engine just now.
  if (!followed) return requireEngine(sql, logId, engine);
  refuseEngine(followed.engine, engine);
}

/**
 * Lets the tables follow the log in another engine. From here on, the log in Postgres takes events
 * only if it is that one: appends wait for the end of the transaction.
 */
export async function followEngine(tx: Transaction, logId: string, engine: Engine): Promise<void> {
  await tx`update log.head set closed = ${engine !== 'postgres'}`;
  await tx`update work.log_engines set engine = ${engine} where log_id = ${logId}`;
  await ownLog(tx, logId);
}
