import type { Event } from './event.ts';

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
