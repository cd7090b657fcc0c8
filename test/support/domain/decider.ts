import { expect } from 'vitest';
import { DomainError, type DomainErrorCode } from '../../../src/domain/errors.ts';
import type { Decider } from '../../../src/domain/events/decider.ts';
import type { Event } from '../../../src/domain/events/event.ts';

/**
 * Specifies a decider: `given(events).when(command).yields(events)`, or `.yields(code)` for the
 * code of the DomainError. The comparison ignores undefined properties of events.
 */
export function specify<State, Command, E extends Event>(decider: Decider<State, Command, E>) {
  const given = (events: readonly E[]) => ({
    when: (command: Command) => ({
      yields: (expected: readonly E[] | DomainErrorCode) =>
        expect(outcomeOf(decider, events, command)).toEqual(expected),
    }),
  });
  return given;
}

/** Returns the events that the command yields after these events, or the code of its error. */
export function outcomeOf<State, Command, E extends Event>(
  decider: Decider<State, Command, E>,
  history: readonly Event[],
  command: Command,
): E[] | DomainErrorCode {
  try {
    return decider.decide(command, stateAfter(decider, history));
  } catch (error) {
    if (error instanceof DomainError) return error.code;
    throw error;
  }
}

export function stateAfter<State, Command, E extends Event>(
  decider: Decider<State, Command, E>,
  history: readonly Event[],
): State {
  return history.reduce(decider.evolve, decider.initialState());
}
