import type { EventBatch } from '../adapters/event-store/port.ts';

/**
 * Yields a subscription's batches, up to the first that has caught up. Reads the next batch while
 * the caller processes the current one.
 */
export async function* readAhead(batches: AsyncIterable<EventBatch>): AsyncGenerator<EventBatch> {
  const iterator = batches[Symbol.asyncIterator]();
  const read = () => {
    const reading = iterator.next();
    // The read can fail before anything awaits it, which would crash the process.
    reading.catch(() => undefined);
    return reading;
  };
  try {
    for (let next = read(); ; ) {
      const { value: batch, done } = await next;
      if (done) return;
      if (!batch.caughtUp) next = read();
      yield batch;
      if (batch.caughtUp) return;
    }
  } finally {
    await iterator.return?.();
  }
}
