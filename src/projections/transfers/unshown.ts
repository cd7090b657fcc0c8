import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Fragment, Queryable } from '../../adapters/postgres/connect.ts';
import { streamPrefix } from '../../domain/streams.ts';
import { checkpointPosition } from '../checkpoint.ts';
import { transfersProjection } from './projection.ts';

/**
 * Returns a query for transfers that the log has and the read model does not show yet: the
 * `position` of their creation, and `account_id`. It finds none while the tables have another
 * version: they wait for their rebuild. Null if the log is not in this Postgres.
 */
export function unshownTransfers(
  sql: Queryable,
  store: Pick<EventStore, 'queryAfter'>,
): Fragment | null {
  const { name, version } = transfersProjection;
  const shown = checkpointPosition(sql, 'read.checkpoints', name, version);
  const events = store.queryAfter?.(sql, [streamPrefix('transfer')], sql`(${shown})`);
  if (events === undefined) return null;
  return sql`
    select position, data::json ->> 'account_id' as account_id
      from (${events}) events where type = 'transfer.created'`;
}
