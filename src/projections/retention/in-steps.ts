import type { EventBatch } from '../../adapters/event-store/port.ts';
import type { RemovedLeaves } from './removed-leaves.ts';

/**
 * Events of one step. Thousands of leaves may have left the log between two of them: a busy log
 * keeps little more than a checkpoint a minute. A million leaves in one step would take 1 GB, and
 * block the process for seconds.
 */
const STEP = 25;

/** Splits batches into small ones, as long as records of retention name further leaves. */
export async function* inSteps(
  batches: AsyncIterable<EventBatch>,
  removed: Pick<RemovedLeaves, 'hasMore'>,
): AsyncGenerator<EventBatch, void, void> {
  for await (const batch of batches) {
    while (batch.events.length > STEP && (await removed.hasMore())) {
      const position = batch.events[STEP - 1]?.position as bigint;
      // Events of one append may share a position, after which a reader would continue.
      const count = batch.events.findIndex((event) => event.position > position);
      if (count < 0) break;
      yield { events: batch.events.splice(0, count), position, caughtUp: false };
    }
    yield batch;
  }
}
