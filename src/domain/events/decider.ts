import type { Event, NewEvent } from './event.ts';
import { upcast } from './upcast.ts';

/**
 * The rules of one aggregate, as plain functions without I/O.
 *
 * `decide` returns the events that follow from a command, or throws a DomainError. It returns no
 * event if the work is already done. `evolve` returns the state after one more event and never
 * throws. For an event that cannot follow, it returns the same state object that it was given.
 */
export interface Decider<State, Command, E extends Event> {
  initialState(): State;
  decide(command: Command, state: State): E[];
  evolve(state: State, event: Event): State;
  /** Returns the account that owns it; null if the installation owns it or it does not exist. */
  accountOf(state: State): string | null;
}

/** The part of a decider that rebuilds a state from its events. */
export type Fold<State> = Pick<Decider<State, never, never>, 'initialState' | 'evolve'>;

/** Returns the state after events as they are stored. They follow the state `from`. */
export function fold<State>(
  { initialState, evolve }: Fold<State>,
  events: NewEvent[],
  from: State = initialState(),
): State {
  return events.map(upcast).reduce(evolve, from);
}
