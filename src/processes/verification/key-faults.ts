/*
 * Finds keys that the log names and that no signature proves. A forged event could say that the key
 * before it signed the new one.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { isSignedByPrevious, statementProblem } from '../../domain/proof/key-statement.ts';
import { isSigningKeyEvent } from '../../domain/proof/signing-key.ts';
import { type Fault, faultIn } from './fault.ts';

/** Returns what is wrong with an event of the stream of keys. */
export async function keyFaults(
  store: EventStore,
  event: StoredEvent,
  logId: string,
): Promise<Fault[]> {
  // An event that cannot be read is a fault already.
  if (event.unreadable !== undefined || !isSigningKeyEvent(event)) return [];
  const wrong = statementProblem(event.data, logId);
  if (wrong !== null) return [faultIn(event, `it names a key, and ${wrong}`)];
  if (event.type === 'log.key_created')
    return event.revision === 0 ? [] : [faultIn(event, 'it is not the first key of the log')];
  const [before] = await store.read(event.stream, event.revision - 1, 1);
  const previous = before && isSigningKeyEvent(before) ? before.data : null;
  if (previous?.key_id !== event.data.previous_key_id)
    return [faultIn(event, 'it does not replace the key before it')];
  // After a loss, the event says that the key before it did not sign.
  if (!event.data.signed_by_previous || isSignedByPrevious(event.data, previous, logId)) return [];
  return [faultIn(event, 'it says that the key before it signed its statement, which is false')];
}
