import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AppendResult,
  type EventStore,
  EventStoreUnavailable,
  RevisionConflict,
} from '../adapters/event-store/port.ts';
import { DomainError } from '../domain/errors.ts';
import { type Causation, chain, timeAfter } from '../domain/events/chain.ts';
import { type Decider, type Fold, fold } from '../domain/events/decider.ts';
import type { Event, NewEvent, StoredEvent } from '../domain/events/event.ts';
import { parseStream } from '../domain/events/streams.ts';
import { type Remembered, rememberStream, takeRemembered } from './remembered-streams.ts';

const ATTEMPTS = 10;

/** Who issued the command, and why. It goes into the metadata of every resulting event. */
export interface Cause {
  actor: string;
  /** The request id, or the id of the job. */
  correlationId: string;
  causationId?: string | null;
  /** Address of the client that sent the request. */
  clientAddress?: string;
  /**
   * True if the request has an Idempotency-Key. All of its attempts then have this correlation id,
   * and no other request has it.
   */
  keyed?: boolean;
}

export interface Handled<State> extends Remembered<State> {
  /** The appended events; empty if the work was already done. */
  events: NewEvent[];
}

export interface HandleOptions<State> {
  /**
   * Time of the events, and the id of the first one: the log then takes a repeated append for the
   * same one, also of another process with another cause. Give an id only if it must be known.
   */
  reserved?: { eventId?: string; now: string };
  /**
   * The stream as the caller last wrote it. The first try decides on this and does not load it.
   * `stored` has the events up to `revision` that `unless` must see.
   */
  known?: Pick<Handled<State>, 'state' | 'revision' | 'position' | 'last'> & {
    stored?: StoredEvent[];
  };
  /** True if another command of this process soon follows: it then need not load the stream. */
  remember?: boolean;
  /**
   * Returns true for the event that another attempt of the same request appended: see `ofRequest`.
   * Then nothing is appended. For commands that a decider cannot recognize as repeated.
   */
  unless?: (event: StoredEvent) => boolean;
  /**
   * The revisions at which the command may append; any if undefined. At another one, `handle`
   * throws `precondition_failed`. A change that the stream already has succeeds (RFC 9110,
   * 13.1.1): the client may not know that its first request was carried out.
   */
  onlyAt?: readonly number[] | undefined;
  /**
   * Throws if the command must not apply to a state, for what a decider cannot check. Runs on the
   * state of each try: another writer may have changed it.
   */
  check?: (state: State) => Promise<void>;
}

/**
 * A command, or what returns it for the time of its events. A time that is in the data of an event
 * must be the time of the event: a reader asks for the state of that time.
 */
export type Timed<Command> = Command | ((now: string) => Command);

/**
 * Loads a stream, decides, and appends at the revision it read. If another writer was first, it
 * starts over, up to ten times. Throws the decider's DomainError, `unavailable` if every try lost,
 * or EventStoreUnavailable.
 *
 * The first try decides on the stream as this process remembers it, if it does. Only an append
 * proves that nothing has happened since, so any other decision is made again on what the log has.
 */
export async function handle<State, Command extends { type: string }, E extends Event>(
  store: EventStore,
  decider: Decider<State, Command, E>,
  stream: string,
  command: Timed<Command>,
  cause: Cause,
  options: HandleOptions<State> = {},
): Promise<Handled<State>> {
  const { unless, onlyAt, reserved } = options;
  const remembered =
    options.known || unless || onlyAt ? null : takeRemembered<State>(store, stream);
  for (let attempt = 1; ; attempt++) {
    const known: HandleOptions<State>['known'] | null =
      attempt === 1 ? (options.known ?? remembered) : null;
    const { stored = [], ...before } =
      known ?? (await loadSince(store, decider, stream, options.known));
    requireLast(stream, before);
    if (unless && stored.some(unless)) return { ...before, events: [] };
    const now = timeAfter(before.last, reserved?.now ?? new Date().toISOString());
    const timed = atTime(command, now);
    const decided = decideOn(decider, timed, before.state, known !== null && known === remembered);
    if (decided === null) continue;
    await options.check?.(before.state);
    if (decided.length === 0) return { ...before, events: [] };
    requireRevision(stream, before.revision, onlyAt);
    const state = decided.reduce(decider.evolve, before.state);
    // The owner's account, not the actor's: an administrator may act for another account.
    const causation = causationOf(cause, decider.accountOf(state));
    const events = chain(decided, before.last, causation, { ...reserved, now });
    const appended = await appendAfter(store, stream, before.revision, events);
    if (appended === null) {
      await pauseBeforeRetry(stream, attempt);
      continue;
    }
    const { revision, position } = appended;
    const isOurs = reserved?.eventId === undefined || appended.isNew === true;
    const handled = isOurs
      ? { state, events, revision, position, last: events.at(-1) ?? null }
      : await readAppended(store, decider, stream, before.revision, revision);
    if (options.remember) {
      const { events: _, ...after } = handled;
      rememberStream(store, stream, after);
    }
    return handled;
  }
}

/**
 * Loads a stream; of one that the caller knows, only what came since, unless nothing did. The stream
 * of a flow may have millions of events.
 */
async function loadSince<State>(
  store: EventStore,
  decider: Fold<State>,
  stream: string,
  known: HandleOptions<State>['known'],
) {
  const news = known && known.revision >= 0 ? await store.read(stream, known.revision + 1) : [];
  const last = news.at(-1);
  if (known === undefined || last === undefined) {
    const stored = await store.read(stream);
    return { ...folded(stored, decider), stored };
  }
  const { revision, position } = last;
  const stored = [...(known.stored ?? []), ...news];
  return { state: fold(decider, news, known.state), revision, position, last, stored };
}

function atTime<Command extends { type: string }>(command: Timed<Command>, now: string): Command {
  return typeof command === 'function' ? (command as (now: string) => Command)(now) : command;
}

/**
 * Throws EventStoreUnavailable for a stream without its last event. An append without the event
 * before would end the hash chain for good. A node of an EventStoreDB that no longer leads can lack
 * an event that a read model shows.
 */
function requireLast(
  stream: string,
  { revision, last }: Pick<Remembered<unknown>, 'revision' | 'last'>,
): void {
  if (revision < 0 || last !== null) return;
  throw new EventStoreUnavailable(
    `The event store answered without revision ${revision} of ${stream}, which exists`,
  );
}

/** Appends events to a stream at this revision. Returns null if another writer was first. */
async function appendAfter(
  store: EventStore,
  stream: string,
  revision: number,
  events: NewEvent[],
): Promise<AppendResult | null> {
  try {
    return await store.append(stream, revision < 0 ? 'no_stream' : revision, events);
  } catch (error) {
    if (error instanceof RevisionConflict) return null;
    throw error;
  }
}

/** Waits for a random time that rises with the attempts. Throws `unavailable` after the last. */
async function pauseBeforeRetry(stream: string, attempt: number): Promise<void> {
  if (attempt === ATTEMPTS)
    throw new DomainError(
      'unavailable',
      `Other requests keep changing ${parseStream(stream).id}; try again in a moment`,
    );
  await sleep(Math.random() * 5 * attempt);
}

/** Throws `precondition_failed` if a stream is at another revision than those given. */
export function requireRevision(
  stream: string,
  revision: number,
  onlyAt: readonly number[] | undefined,
): void {
  if (!onlyAt || onlyAt.includes(revision)) return;
  throw new DomainError(
    'precondition_failed',
    `${parseStream(stream).id} has changed and is at revision ${revision} now. Read it again, and ` +
      'repeat the request if your change still holds',
  );
}

/**
 * Returns what the log has in place of events that were appended under the same ids: another
 * process may have written them, with another cause. The next event must continue their hash chain.
 */
async function readAppended<State>(
  store: EventStore,
  fold: Fold<State>,
  stream: string,
  before: number,
  revision: number,
): Promise<Handled<State>> {
  const stored = await store.read(stream, 0, revision + 1);
  return { ...folded(stored, fold), events: stored.slice(before + 1) };
}

/**
 * For `unless`: recognizes the events of other attempts of the same request, which may run minutes
 * earlier or later. Other commands may have come between, so the state does not show them.
 */
export function ofRequest({ keyed, correlationId }: Cause): (event: StoredEvent) => boolean {
  return ({ metadata }) => keyed === true && metadata.correlation_id === correlationId;
}

/** Returns null for a decision on a remembered state that leads to no append. */
function decideOn<State, Command, E extends Event>(
  decider: Decider<State, Command, E>,
  command: Command,
  state: State,
  isRemembered: boolean,
): E[] | null {
  if (!isRemembered) return decider.decide(command, state);
  try {
    const decided = decider.decide(command, state);
    return decided.length === 0 ? null : decided;
  } catch (error) {
    if (error instanceof DomainError) return null;
    throw error;
  }
}

/** Loads a stream: its state and its first and last event. Throws EventStoreUnavailable. */
export async function load<State>(store: EventStore, fold: Fold<State>, stream: string) {
  return folded(await store.read(stream), fold);
}

function folded<State>(stored: StoredEvent[], decider: Fold<State>) {
  const last = stored.at(-1) ?? null;
  const state = fold(decider, stored);
  const first = stored[0] ?? null;
  return { state, revision: last?.revision ?? -1, position: last?.position ?? null, first, last };
}

/** Returns the state of a stream without events, for the option `known`. */
export function untouched<State>(
  initialState: () => State,
): NonNullable<HandleOptions<State>['known']> {
  return { state: initialState(), revision: -1, position: null, last: null };
}

/** Returns what events say about their cause. The keys are in the order that `chain` asks for. */
export function causationOf(cause: Cause, accountId: string | null): Causation {
  return {
    account_id: accountId,
    actor: cause.actor,
    causation_id: cause.causationId ?? null,
    ...(cause.clientAddress !== undefined && { client_address: cause.clientAddress }),
    correlation_id: cause.correlationId,
  };
}
