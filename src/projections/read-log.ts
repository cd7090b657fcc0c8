import { pagesOf } from '../adapters/event-store/pages.ts';
import {
  type EventBatch,
  type EventStore,
  EventStoreUnavailable,
  PositionUnknown,
} from '../adapters/event-store/port.ts';
import { pause } from '../concurrency/pause.ts';
import { fieldError } from '../domain/errors.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { RETENTION } from '../domain/events/streams.ts';
import { endOfLog } from './newest-of-log.ts';
import { readAhead } from './read-ahead.ts';

/** Events of one stream that are in memory at once. One of `log-retention` may have 300 KB. */
const READ_AT_ONCE = 100;
const LOOK_MS = 500;

export interface LogSlice {
  /** Exclusive; null starts before the first event. */
  from: bigint | null;
  /** Inclusive; the end of the log at the time of the call by default. Null is before any event. */
  until?: bigint | null;
  /**
   * Id of an event up to `until` that the log has. A node of an EventStoreDB that does not know it
   * is a former leader: the read waits `staleMs` for its successor, and then fails.
   */
  holds?: string | undefined;
  /** Only the events of this stream. */
  stream?: string | undefined;
  /** Ends the read early. */
  signal?: AbortSignal;
  batchSize?: number;
}

/**
 * As `readLog`, for a client that may read slowly. If transfers leave the log meanwhile, the read
 * goes on up to the records that name them. Without these, a reader could not explain the missing
 * events. Throws `invalid_parameter` for an unknown position, also for one after the end: a client
 * that continues would miss what a restored copy of the log appends up to there. Throws
 * EventStoreUnavailable as `readLog` does.
 */
export async function* readLogFrom(
  store: EventStore,
  { from, until, ...slice }: LogSlice & { until: bigint | null },
): AsyncGenerator<EventBatch, void, void> {
  if (from !== null && until !== null && from > until)
    throw fieldError(
      'from',
      `is after the end of the log, ${until}: an older copy of the log may have been restored. ` +
        'Export it again from its start',
      'invalid_parameter',
    );
  try {
    yield* readLog(store, { ...slice, from, until });
  } catch (error) {
    if (!(error instanceof PositionUnknown)) throw error;
    throw fieldError('from', 'must be the position of an event of the log', 'invalid_parameter');
  }
  if (until === null || slice.stream !== undefined || slice.signal?.aborted) return;
  const record = await lastAfter(store, RETENTION, until);
  if (record === null) return;
  const { id: holds, position } = record;
  yield* readLogFrom(store, { ...slice, holds, from: until, until: position });
}

/** Returns the last event of a stream, if it is after a position. */
async function lastAfter(
  store: EventStore,
  stream: string,
  position: bigint,
): Promise<StoredEvent | null> {
  let last: StoredEvent | null = null;
  const first = await revisionAfter(store, stream, position);
  for await (const events of pagesOf(store, stream, first, READ_AT_ONCE))
    last = events.at(-1) ?? last;
  return last;
}

/**
 * Yields the stored events after a position, up to another. Throws PositionUnknown. Throws
 * EventStoreUnavailable if it does not find the event that the slice `holds`.
 */
export async function* readLog(store: EventStore, slice: LogSlice): AsyncGenerator<EventBatch> {
  const { from, stream, signal, holds } = slice;
  const until = slice.until === undefined ? await store.head() : slice.until;
  if (until === null || (from !== null && from >= until)) return;
  if (stream !== undefined) {
    if (holds !== undefined && (await endOfLog(store, until)) < until) throw behind(until);
    yield* readStream(store, stream, from, until, signal);
    return;
  }
  let reached = from;
  let isWhole = holds === undefined;
  for (let patience: number | null = null; ; ) {
    for await (const batch of readOnce(store, { ...slice, from: reached, until })) {
      reached = batch.position;
      isWhole ||= reached >= until || batch.events.some(({ id }) => id === holds);
      yield batch;
    }
    if (isWhole || signal?.aborted) return;
    patience ??= performance.now() + store.staleMs;
    if (performance.now() >= patience) throw behind(until);
    await pause(LOOK_MS, signal);
  }
}

function behind(until: bigint): EventStoreUnavailable {
  return new EventStoreUnavailable(`no node of the event log has its events up to ${until} yet`);
}

/** Ends at `until`, or earlier where a node has no further event. */
async function* readOnce(
  store: EventStore,
  { from, until, signal, batchSize }: LogSlice & { until: bigint },
): AsyncGenerator<EventBatch> {
  const done = new AbortController();
  const subscription = store.subscribe({
    from,
    signal: AbortSignal.any([done.signal, ...(signal ? [signal] : [])]),
    ...(batchSize && { batchSize }),
  });
  try {
    for await (const batch of readAhead(subscription)) {
      const isEnd = batch.position >= until;
      const events = batch.events.filter(({ position }) => position <= until);
      // A log that grows has later events in the last batch: the caller has not read those.
      yield { ...batch, events, position: isEnd ? until : batch.position };
      if (isEnd) return;
    }
  } finally {
    done.abort();
  }
}

async function* readStream(
  store: EventStore,
  stream: string,
  from: bigint | null,
  until: bigint,
  signal: AbortSignal | undefined,
): AsyncGenerator<EventBatch> {
  // The log's own streams grow without an end. All others are short.
  const first = await revisionAfter(store, stream, from);
  for await (const page of pagesOf(store, stream, first, READ_AT_ONCE)) {
    if (signal?.aborted) return;
    const events = page.filter(({ position }) => position <= until);
    const last = events.at(-1);
    const isEnd = last === undefined || events.length < READ_AT_ONCE;
    yield { events, position: isEnd ? until : last.position, caughtUp: isEnd };
    if (isEnd) return;
  }
}

/**
 * Returns the revision that the first event of a stream after a position has, or will have. Reads
 * few events of a long stream.
 */
export async function revisionAfter(
  store: EventStore,
  stream: string,
  position: bigint | null,
): Promise<number> {
  if (position === null) return 0;
  const isAfter = async (revision: number) => {
    const [event] = await store.read(stream, revision, 1);
    return event === undefined || event.position > position;
  };
  let low = 0;
  let step = 1;
  while (!(await isAfter(low + step - 1))) {
    low += step;
    step *= 2;
  }
  let high = low + step - 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (await isAfter(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
