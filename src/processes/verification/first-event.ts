import type { StoredEvent } from '../../domain/events/event.ts';
import { isFirstOfLog } from '../../domain/events/streams.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';

/**
 * Returns the fault of the event with which a log begins, if it has one. That event has the id of
 * the log, and `chain.ts` checks its type. Null is the first event of an empty log.
 */
export function faultOfFirst(event: StoredEvent | null): Fault | null {
  if (event === null) return nowhere('stream', 'it has no event: all of them were removed');
  if (!isFirstOfLog(event))
    return nowhere(
      'stream',
      'it does not begin with log.opened, which has its id: that event was removed or moved',
    );
  const { log_id } = (event.data ?? {}) as { log_id?: unknown };
  if (event.unreadable !== undefined || typeof log_id === 'string') return null;
  return faultIn(event, 'its log_id is missing: the data was changed');
}
