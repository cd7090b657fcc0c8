import type { Batch, EventStore } from '../adapters/event-store/port.ts';
import { parseStream } from '../domain/streams.ts';
import { readAhead } from './read-ahead.ts';

export interface LogSlice {
  /** Exclusive; null starts before the first event. */
  from: bigint | null;
  /** Inclusive; the end of the log at the time of the call by default. Null is before any event. */
  until?: bigint | null;
  /** Only the events of this stream. */
  stream?: string | undefined;
  /** Ends the read early. */
  signal?: AbortSignal;
  batchSize?: number;
}

/** Yields the stored events after a position, up to another. */
export async function* readLog(
  store: EventStore,
  { from, until: last, stream, signal, batchSize }: LogSlice,
): AsyncGenerator<Batch> {
  const until = last === undefined ? await store.head() : last;
  if (until === null || (from !== null && from >= until)) return;
  // The log's own streams grow without an end. All others fit into one read.
  if (stream !== undefined && parseStream(stream).kind !== 'log') {
    const events = (await store.read(stream)).filter(
      ({ position }) => position > (from ?? -1n) && position <= until,
    );
    yield { events, position: until, caughtUp: true };
    return;
  }
  const done = new AbortController();
  const subscription = store.subscribe({
    from,
    signal: AbortSignal.any([done.signal, ...(signal ? [signal] : [])]),
    ...(batchSize && { batchSize }),
    ...(stream && { streams: [stream] }),
  });
  try {
    for await (const batch of readAhead(subscription)) {
      const events = batch.events.filter(
        (event) => event.position <= until && event.stream === (stream ?? event.stream),
      );
      yield { ...batch, events };
      if (batch.position >= until) return;
    }
  } finally {
    done.abort();
  }
}
