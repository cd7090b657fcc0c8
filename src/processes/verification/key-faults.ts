/*
 * Finds keys that the log names and that no signature proves, and checkpoints of replaced keys. A
 * forged event could say that the key before it signed the new one. A stolen key could sign for
 * ever.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { isSignedByPrevious, statementProblem } from '../../domain/proof/key-statement.ts';
import { isSigningKeyEvent } from '../../domain/proof/signing-key.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';
import type { KeptCheckpoint } from './kept-checkpoints.ts';

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

/** The keys that were replaced, each with the leaf of the event that replaced it. */
export type ReplacedKeys = [keyId: string, leaf: number][];

/** Adds the key that an event replaces, if it is a rotation. `leaf` is its place in the tree. */
export function addReplaced(replaced: ReplacedKeys, event: StoredEvent, leaf: number): void {
  if (!isSigningKeyEvent(event) || event.type !== 'log.key_rotated') return;
  const { previous_key_id } = event.data;
  if (!replaced.some(([keyId]) => keyId === previous_key_id))
    replaced.push([previous_key_id, leaf]);
}

/**
 * Yields a fault for each checkpoint that covers the event which replaced its key. The signer reads
 * its key after the tree, so a genuine checkpoint never does.
 */
export function* signedTooLate(
  checkpoints: KeptCheckpoint[],
  replaced: ReplacedKeys,
): Generator<Fault> {
  const ends = new Map(replaced);
  for (const { source, size, keyIds = [] } of checkpoints) {
    const late = keyIds.filter((keyId) => (ends.get(keyId) ?? size) < size);
    if (late.length === 0 || late.length < keyIds.length) continue;
    const leaf = ends.get(late[0] as string) as number;
    const problem =
      `${source} covers ${size} events, and the key ${late[0]} signed it, which event ` +
      `${leaf + 1} of the log replaced`;
    yield nowhere('checkpoint', problem);
  }
}
