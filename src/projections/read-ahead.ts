import type { Batch } from '../adapters/event-store/port.ts';

/**
 * A subscription's batches up to the first that has caught up: each is given while the next one is being
 * read, so that reading and working on what was read go on at the same time.
 */
export async function* readAhead(batches: AsyncIterable<Batch>): AsyncGenerator<Batch> {
  const iterator = batches[Symbol.asyncIterator]();
  const read = () => {
    const reading = iterator.next();
    // It may fail while nobody awaits it yet.
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
