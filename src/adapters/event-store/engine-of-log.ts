import type { Queryable, Transaction } from '../postgres/connect.ts';
import { type Engine, EventStoreUnusable } from './port.ts';

const OTHER: Record<Engine, string> = {
  postgres:
    'The tables of this database follow the log in Postgres, not this copy in an EventStoreDB. ' +
    'Remove EVENTSTORE_URL. To move the log, run waybill log copy --switch first',
  eventstoredb:
    'The tables of this database follow the log in an EventStoreDB, to which it was moved. The one ' +
    'in Postgres is old. Set EVENTSTORE_URL',
};

/**
 * Compares the engine of a log with the one that the tables of this database follow. The first
 * engine that opens a log is that one. Throws EventStoreUnusable, which says what to do, if it is
 * another: it may lack the latest events, and it has other positions.
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
  if (followed.engine !== engine) throw new EventStoreUnusable(OTHER[followed.engine]);
}

/**
 * Lets the tables follow the log in another engine. From here on, the log in Postgres takes events
 * only if it is that one: appends wait for the end of the transaction.
 */
export async function followEngine(tx: Transaction, logId: string, engine: Engine): Promise<void> {
  await tx`update log.head set closed = ${engine !== 'postgres'}`;
  await tx`update work.log_engines set engine = ${engine} where log_id = ${logId}`;
}
