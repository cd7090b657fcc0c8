import type { Condition, EventStore } from '../adapters/event-store/port.ts';
import type { NewEvent } from '../domain/events/event.ts';

/*
 * Streams as the log has them after an append of this process. A process that creates or admits a
 * transfer often starts it too, a moment later, and then need not read the stream. A stream may
 * have changed since: see `handle`.
 */

export interface Remembered<State> {
  state: State;
  /** Current revision of the stream; -1 if the stream does not exist. */
  revision: number;
  /** Position of the last event; null if there is none. Wait for it to read your own write. */
  position: bigint | null;
  /** The stream's last event; null if there is none. */
  last: NewEvent | null;
}

/** About 3 KB each. */
const STREAMS = 2_000;

const streamsOf = new WeakMap<EventStore, Map<string, Remembered<unknown>>>();

/** Returns the store with another `append`. Both remember the same streams. */
export function withAppend(store: EventStore, append: EventStore['append']): EventStore {
  return changed(store, { append });
}

const conditioned = new WeakMap<Condition, EventStore>();

/**
 * Returns the store with a condition of every append, which throws ConditionFailed. The store must
 * have `appendWith`. A condition belongs to one store.
 */
export function withCondition(store: EventStore, condition: Condition): EventStore {
  const known = conditioned.get(condition);
  if (known !== undefined) return known;
  const appendWith: EventStore['appendWith'] = (stream, expected, events, options) => {
    if (store.appendWith === undefined) throw new TypeError('the log takes no conditions');
    return store.appendWith(stream, expected, events, { ...options, condition });
  };
  const other = changed(store, {
    append: (stream, expected, events) => appendWith(stream, expected, events, {}),
    appendWith,
  });
  conditioned.set(condition, other);
  return other;
}

/** Returns the store with other functions. Both remember the same streams. */
export function changed(store: EventStore, changes: Partial<EventStore>): EventStore {
  const other = { ...store, ...changes };
  streamsOf.set(other, streamsIn(store));
  return other;
}

function streamsIn(store: EventStore): Map<string, Remembered<unknown>> {
  const streams = streamsOf.get(store) ?? new Map<string, Remembered<unknown>>();
  streamsOf.set(store, streams);
  return streams;
}

/** Remembers a stream, and forgets the oldest if there are too many. */
export function rememberStream(
  store: EventStore,
  stream: string,
  known: Remembered<unknown>,
): void {
  const streams = streamsIn(store);
  streams.set(stream, known);
  if (streams.size > STREAMS) streams.delete(streams.keys().next().value as string);
}

/** Returns a stream and forgets it: its next writer changes it. Null if it is not remembered. */
export function takeRemembered<State>(store: EventStore, stream: string): Remembered<State> | null {
  const known = streamsOf.get(store)?.get(stream) ?? null;
  if (known !== null) streamsOf.get(store)?.delete(stream);
  return known as Remembered<State> | null;
}
