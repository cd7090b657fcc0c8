import { expect } from 'vitest';
import type { Decider } from '../../src/commands/handle.ts';
import { DomainError, type DomainErrorCode } from '../../src/domain/errors.ts';
import type { Event } from '../../src/domain/event.ts';

/**
 * Specifies a decider: `given(events).when(command).yields(events)`, or `.yields(code)` for the code of
 * the DomainError that refuses it. Events are compared without what is undefined in them.
 */
export function specify<State, Command, E extends Event>(decider: Decider<State, Command, E>) {
  const given = (events: readonly E[]) => ({
    when: (command: Command) => ({
      yields: (expected: readonly E[] | DomainErrorCode) => expect(outcomeOf(decider, events, command)).toEqual(expected),
    }),
  });
  return given;
}

/** What a command comes to after these events: further events, or the code of the refusal. */
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

export function stateAfter<State, Command, E extends Event>(decider: Decider<State, Command, E>, history: readonly Event[]): State {
  return history.reduce(decider.evolve, decider.initialState());
}
