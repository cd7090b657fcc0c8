import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql } from '../adapters/postgres/connect.ts';
import type { Fold } from '../domain/events/decider.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { upcast } from '../domain/events/upcast.ts';

/** What finds an aggregate: its read model, and the log for what that does not show yet. */
export interface Stores {
  sql: Sql;
  store: Pick<EventStore, 'read'>;
}

/** A stream's state as a projection stores it. */
export interface Folded<State> {
  state: State;
  revision: number;
  position: bigint;
}

/** Thrown for an event that cannot follow the folded state. The message names the event. */
export class FoldError extends Error {
  override readonly name = 'FoldError';

  constructor(event: StoredEvent, reason: string, options?: ErrorOptions) {
    super(
      `Cannot fold event ${event.id} (${event.type}, ${event.stream}, ` +
        `revision ${event.revision}, position ${event.position}): ${reason}`,
      options,
    );
  }
}

/**
 * Folds a batch onto the known states of its streams. Skips events that were folded before. Returns
 * the changed streams. Throws FoldError if a revision is missing, or if an event changes nothing or
 * has data of another type.
 */
export function foldBatch<State extends { status: string }>(
  events: StoredEvent[],
  known: Map<string, Folded<State>>,
  decider: Fold<State>,
): Map<string, Folded<State>> {
  const changed = new Map<string, Folded<State>>();
  for (const event of events) {
    const before = changed.get(event.stream) ??
      known.get(event.stream) ?? { state: decider.initialState(), revision: -1, position: 0n };
    if (event.revision <= before.revision) continue;
    if (event.revision !== before.revision + 1)
      throw new FoldError(event, `the last folded revision is ${before.revision}`);
    const state = evolved(decider, before.state, event);
    if (state === before.state)
      throw new FoldError(
        event,
        `an event of this type cannot follow in the status ${state.status}`,
      );
    changed.set(event.stream, { state, revision: event.revision, position: event.position });
  }
  return changed;
}

/** Throws FoldError for data that Waybill does not write: a decider expects that of its events. */
function evolved<State>(decider: Fold<State>, state: State, event: StoredEvent): State {
  try {
    return decider.evolve(state, event);
  } catch (cause) {
    throw new FoldError(event, 'its data is not that of its type', { cause });
  }
}

/**
 * Returns the state that the read model will have of a stream, or null if there is no such stream.
 * A query calls this for an id that its table lacks. So clients find what they have just created,
 * also while the read model is behind. Throws FoldError.
 */
export async function foldStream<State extends { status: string }>(
  store: Pick<EventStore, 'read'>,
  stream: string,
  decider: Fold<State>,
): Promise<Folded<Exclude<State, { status: 'none' }>> | null> {
  const events = (await store.read(stream)).map(upcast);
  const folded = foldBatch(events, new Map(), decider).get(stream);
  return (folded as Folded<Exclude<State, { status: 'none' }>> | undefined) ?? null;
}
