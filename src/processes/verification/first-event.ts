import type { StoredEvent } from '../../domain/events/event.ts';
import { isFirstOfLog } from '../../domain/events/streams.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';

/**
 * Returns the faults of the first event of a log. This event has the id of the log. `chain.ts`
 * checks its type. An empty log has null in its place.
 */
export function faultsOfFirst(event: StoredEvent | null): Fault[] {
  if (event === null) return [nowhere('stream', 'it has no event: all of them were removed')];
  if (!isFirstOfLog(event)) {
    const problem =
      'it does not begin with log.opened, which has its id: that event was removed or moved';
    return [nowhere('stream', problem)];
  }
  const { log_id } = (event.data ?? {}) as { log_id?: unknown };
  if (event.unreadable !== undefined || typeof log_id === 'string') return [];
  return [faultIn(event, 'its log_id is missing: the data was changed')];
}
