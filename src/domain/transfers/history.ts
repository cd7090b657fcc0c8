import { DomainError, fieldError, notFound } from '../errors.ts';
import { fold } from '../events/decider.ts';
import type { NewEvent, StoredEvent } from '../events/event.ts';
import { transferDecider } from './decider.ts';
import type { Transfer } from './transfer.ts';

/** A point in a history: a time (an ISO instant with milliseconds) or a revision. */
export type AsOf = { time: string } | { revision: number };

/** Returns the events of a history up to a point, inclusive. */
export function eventsUntil(events: StoredEvent[], asOf: AsOf): StoredEvent[] {
  return events.filter(({ revision, metadata }) =>
    'revision' in asOf ? revision <= asOf.revision : metadata.occurred_at <= asOf.time,
  );
}

/** Returns the transfer after these events. Throws `not_found` if there are none. */
export function stateOf(events: NewEvent[]): Transfer {
  const state = fold(transferDecider, events);
  if (state.status === 'none') throw notFound('transfer');
  return state;
}

/**
 * Returns the transfer at an earlier point. Throws `not_found` if it did not exist yet, and
 * `invalid_parameter` for a revision that it has not reached.
 */
export function stateAsOf(events: StoredEvent[], asOf: AsOf): Transfer {
  const last = events.at(-1)?.revision;
  if (last !== undefined && 'revision' in asOf && asOf.revision > last)
    throw fieldError(
      'as_of',
      `must be a revision from 0 to ${last}: the transfer has no later one yet`,
      'invalid_parameter',
    );
  const until = eventsUntil(events, asOf);
  const [created] = events;
  if (created !== undefined && until.length === 0)
    throw new DomainError(
      'not_found',
      `The transfer did not exist yet: it was created at ${created.metadata.occurred_at}`,
    );
  return stateOf(until);
}
