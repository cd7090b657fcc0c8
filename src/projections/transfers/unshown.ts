import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Fragment, Queryable } from '../../adapters/postgres/connect.ts';
import { streamPrefix } from '../../domain/events/streams.ts';
import { checkpointPosition } from '../checkpoint.ts';
import { transfersProjection } from './projection.ts';

type Log = Pick<EventStore, 'queryNewest'>;

/**
 * How many of the events that the read model lacks are looked at, the newest ones. Requests stay
 * quick while the read model is far behind.
 */
const MAX_LOOKED_AT = 2_000;

/**
 * Returns a query for the `account_id` of transfers that the log has and the read model does not
 * show yet. It finds none while the tables have another version: they wait for their rebuild. Null
 * if the log is not in this Postgres.
 */
export function unshownTransfers(sql: Queryable, log: Log): Fragment | null {
  const events = unshownEvents(sql, log);
  return (
    events &&
    sql`
      select data::json ->> 'account_id' as account_id
        from (${events}) events where type = 'transfer.created'`
  );
}

/**
 * Returns an expression for the position that the read model must reach to show all transfers that
 * the log has now. Null, as an expression too, where `unshownTransfers` is null or finds none.
 */
export function newestUnshown(sql: Queryable, log: Log): Fragment | null {
  const events = unshownEvents(sql, log);
  // Creations before those that were looked at are before the first of these.
  return (
    events &&
    sql`
      (select coalesce(max(position) filter (where type = 'transfer.created'),
                       case when count(*) = ${MAX_LOOKED_AT} then min(position) end)
         from (${events}) events)`
  );
}

function unshownEvents(sql: Queryable, { queryNewest }: Log): Fragment | null {
  const { name, version } = transfersProjection;
  const shown = checkpointPosition(sql, 'read.checkpoints', name, version);
  return queryNewest?.(sql, [streamPrefix('transfer')], sql`(${shown})`, MAX_LOOKED_AT) ?? null;
}
