import { setTimeout as sleep } from 'node:timers/promises';
import { type EventStore, RevisionConflict } from '../adapters/event-store/port.ts';
import { DomainError } from '../domain/errors.ts';
import type { Event, EventMetadata, NewEvent } from '../domain/event.ts';
import { nextEventId } from '../domain/ids.ts';
import { schemaVersion, upcast } from '../domain/upcast.ts';
import { eventHash } from './event-hash.ts';

const ATTEMPTS = 10;

/** Who asks, and why: goes into the metadata of every event that follows. */
export interface Cause {
  actor: string;
  /** The request id, or the id of the job. */
  correlationId: string;
  causationId?: string | null;
}

/** The plain functions of an aggregate. */
export interface Decider<State, Command, E extends Event> {
  initialState(): State;
  decide(command: Command, state: State): E[];
  evolve(state: State, event: Event): State;
  /** Whose it is; null where it belongs to the whole installation, or there is none. */
  accountOf(state: State): string | null;
}

export interface Handled<State> {
  state: State;
  /** What was appended; empty where the work was done already. */
  events: NewEvent[];
  /** Revision of the stream now; -1 where there is none. */
  revision: number;
  /** Position of the stream's last event: wait for it to read one's own write. null where there is none. */
  position: bigint | null;
  /** The stream's last event; null where there is none. */
  last: NewEvent | null;
}

export interface HandleOptions<State> {
  /** Ids and time reserved for the events beforehand, so that a repeated append is recognised as the same. */
  reserved?: { eventId: string; now: string };
  /** How the stream was when the caller last wrote to it: append without looking. */
  known?: Pick<Handled<State>, 'state' | 'revision' | 'position' | 'last'>;
}

/**
 * Loads a stream, decides, appends at the revision that was seen; when another writer was first, all
 * over again, ten times at most. Throws the decider's DomainError, `unavailable` when it always lost,
 * or EventStoreUnavailable.
 */
export async function handle<State, Command, E extends Event>(
  store: EventStore,
  decider: Decider<State, Command, E>,
  stream: string,
  command: Command,
  cause: Cause,
  options: HandleOptions<State> = {},
): Promise<Handled<State>> {
  for (let attempt = 1; ; attempt++) {
    const before = options.known && attempt === 1 ? options.known : await load(store, decider, stream);
    const decided = decider.decide(command, before.state);
    if (decided.length === 0) return { ...before, events: [] };
    const state = decided.reduce(decider.evolve, before.state);
    // Whoever acts: an administrator does so on what is another account's.
    const events = chain(decided, before.last, cause, decider.accountOf(state), options.reserved);
    try {
      const { revision, position } = await store.append(stream, before.revision < 0 ? 'no_stream' : before.revision, events);
      return { state, events, revision, position, last: events.at(-1) ?? null };
    } catch (error) {
      if (!(error instanceof RevisionConflict)) throw error;
      if (attempt === ATTEMPTS) throw new DomainError('unavailable', 'Others keep changing the same thing; try again in a moment');
      await sleep(Math.random() * 5 * attempt);
    }
  }
}

async function load<State>(
  store: EventStore,
  { initialState, evolve }: Pick<Decider<State, never, never>, 'initialState' | 'evolve'>,
  stream: string,
) {
  const stored = await store.read(stream);
  const last = stored.at(-1) ?? null;
  const state = stored.map(upcast).reduce(evolve, initialState());
  return { state, revision: last?.revision ?? -1, position: last?.position ?? null, last };
}

/** What there is to know of a stream that nobody has written to. */
export function untouched<State>(initialState: () => State): NonNullable<HandleOptions<State>['known']> {
  return { state: initialState(), revision: -1, position: null, last: null };
}

/** Gives decided events their ids, times and place in the stream's hash chain. */
function chain(
  decided: Event[],
  last: NewEvent | null,
  cause: Cause,
  accountId: string | null,
  reserved: HandleOptions<never>['reserved'],
): NewEvent[] {
  const events: NewEvent[] = [];
  let previous: NewEvent | null = last;
  for (const { type, data } of decided) {
    const now = reserved?.now ?? new Date().toISOString();
    const event: NewEvent = {
      id: previous === null && reserved ? reserved.eventId : nextEventId(previous?.id ?? null, Date.parse(now)),
      type,
      schema_version: schemaVersion(type),
      data,
      metadata: metadata(cause, accountId, now, previous),
    };
    events.push(event);
    previous = event;
  }
  return events;
}

function metadata(cause: Cause, accountId: string | null, now: string, previous: NewEvent | null): EventMetadata {
  return {
    actor: cause.actor,
    account_id: accountId,
    correlation_id: cause.correlationId,
    causation_id: cause.causationId ?? null,
    occurred_at: previous && previous.metadata.occurred_at > now ? previous.metadata.occurred_at : now,
    prev_hash: previous && eventHash(previous),
  };
}
