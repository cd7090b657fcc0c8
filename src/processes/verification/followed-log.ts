import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { furthestCheckpoint } from '../../projections/checkpoint.ts';
import { findEvent } from '../../projections/newest-of-log.ts';
import { type Fault, nowhere } from './fault.ts';

/**
 * Returns the last event that the tables of the API have processed, as the log has it. Null if the
 * log does not have it, also after `staleMs`, or if they follow another log.
 */
export async function lastFollowed(
  { store, sql }: { store: EventStore; sql: Sql },
  logId: string,
): Promise<StoredEvent | null> {
  const checkpoint = await furthestCheckpoint(sql);
  if (!checkpoint?.event || checkpoint.logId !== logId) return null;
  return findEvent(store, checkpoint.event);
}

/**
 * Returns the fault of a log that the tables of the API do not follow, if it is another one, or does
 * not have the last event that they have processed.
 */
export async function faultOfFollowed(
  { store, sql }: { store: EventStore; sql: Sql },
  logId: string,
): Promise<Fault | null> {
  const checkpoint = await furthestCheckpoint(sql);
  if (!checkpoint?.event) return null;
  if (checkpoint.logId !== logId)
    return nowhere(
      'api',
      `the API follows the log ${checkpoint.logId}, and this is the log ${logId}: it is another ` +
        'one, or its log.opened was changed',
    );
  const { id, stream, revision } = checkpoint.event;
  if ((await findEvent(store, checkpoint.event))?.id === id) return null;
  // It may have left the log by retention meanwhile: then a later event is the last one.
  if ((await furthestCheckpoint(sql))?.event?.id !== id)
    return faultOfFollowed({ store, sql }, logId);
  return {
    ...{ check: 'api', stream, revision, event_id: id, position: null },
    problem:
      'the API has processed it, and the log does not have it: it was removed or changed, or an ' +
      'older copy of the log was restored',
  };
}
