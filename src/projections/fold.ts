import type { StoredEvent } from '../domain/event.ts';

/** A stream's state as a projection keeps it. */
export interface Folded<State> {
  state: State;
  revision: number;
  position: bigint;
}

/** An event that does not follow from what was folded before. Names the event. */
export class FoldError extends Error {
  override readonly name = 'FoldError';

  constructor(event: StoredEvent, reason: string) {
    super(
      `Event ${event.id} (${event.type}, ${event.stream}, revision ${event.revision}, position ${event.position}) can't be folded: ${reason}`,
    );
  }
}

/**
 * Folds a batch, stream by stream, onto what is known of those streams. Events that were folded before
 * are passed over. Gives the streams that changed; throws FoldError where a revision is missing.
 */
export function foldBatch<State extends { status: string }>(
  events: StoredEvent[],
  known: Map<string, Folded<State>>,
  decider: { initialState(): State; evolve(state: State, event: StoredEvent): State },
): Map<string, Folded<State>> {
  const changed = new Map<string, Folded<State>>();
  for (const event of events) {
    const before = changed.get(event.stream) ?? known.get(event.stream) ?? { state: decider.initialState(), revision: -1, position: 0n };
    if (event.revision <= before.revision) continue;
    if (event.revision !== before.revision + 1) throw new FoldError(event, `the last one folded was revision ${before.revision}`);
    const state = decider.evolve(before.state, event);
    if (state === before.state) throw new FoldError(event, `nothing of this kind can follow where the status is ${state.status}`);
    changed.set(event.stream, { state, revision: event.revision, position: event.position });
  }
  return changed;
}
