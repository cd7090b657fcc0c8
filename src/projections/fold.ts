import type { Fold } from '../domain/decider.ts';
import type { StoredEvent } from '../domain/event.ts';

/** A stream's state as a projection stores it. */
export interface Folded<State> {
  state: State;
  revision: number;
  position: bigint;
}

/** Thrown for an event that cannot follow the folded state. The message names the event. */
export class FoldError extends Error {
  override readonly name = 'FoldError';

  constructor(event: StoredEvent, reason: string) {
    super(
      `Cannot fold event ${event.id} (${event.type}, ${event.stream}, ` +
        `revision ${event.revision}, position ${event.position}): ${reason}`,
    );
  }
}

/**
 * Folds a batch onto the known states of its streams. Skips events that were folded before. Returns
 * the changed streams. Throws FoldError if a revision is missing or an event changes nothing.
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
    const state = decider.evolve(before.state, event);
    if (state === before.state)
      throw new FoldError(
        event,
        `an event of this type cannot follow in the status ${state.status}`,
      );
    changed.set(event.stream, { state, revision: event.revision, position: event.position });
  }
  return changed;
}
