import type { Queryable } from '../postgres/connect.ts';
import { EventStoreSettingsError } from './port.ts';

/** Notes that a log belongs to this database. */
export async function ownLog(sql: Queryable, logId: string): Promise<void> {
  await sql`insert into work.own_logs (log_id) values (${logId}) on conflict do nothing`;
}

/** Returns true if this database began the log, or took it over. */
export async function isOwnLog(sql: Queryable, logId: string): Promise<boolean> {
  const [own] = await sql`select 1 from work.own_logs where log_id = ${logId}`;
  return own !== undefined;
}

/**
 * Throws EventStoreSettingsError, which says what to do, if the log belongs to another database:
 * its movers have the vault and the jobs of the log, and this process would take their transfers.
 */
export async function requireOwnLog(sql: Queryable, logId: string): Promise<void> {
  if (await isOwnLog(sql, logId)) return;
  throw new EventStoreSettingsError(
    `The EventStoreDB has the log ${logId}, and this database neither began it nor took it over. ` +
      'Nothing was written into the log. Check DATABASE_URL (without it, Waybill uses the embedded ' +
      'Postgres of WAYBILL_DATA_DIR), EVENTSTORE_URL and WAYBILL_STREAM_PREFIX. If the database of ' +
      'this log is lost, run waybill log adopt',
  );
}
