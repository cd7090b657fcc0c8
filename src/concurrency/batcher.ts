import { withTimeout } from './with-timeout.ts';

/** Rejects a call whose batch got no answer in time. The batch may still have taken effect. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  readonly code = 'ETIMEDOUT';
}

export interface BatcherOptions {
  /** Maximum number of items in a batch. */
  limit?: number;
  /**
   * Milliseconds, 10,000 by default, after which a batch fails with NoAnswer and the next one
   * begins. A silent connection then does not block later calls. Null if `perform` has its own time
   * limit, or if batches must not overtake each other.
   */
  answerWithinMs?: number | null;
  /**
   * A batch begins when `count` calls wait, or `ms` milliseconds after the first of them. By
   * default it begins at once.
   */
  gather?: { count: number; ms: number } | null;
}

/**
 * Creates a function that combines concurrent calls. One batch is under way at a time, and calls
 * that arrive meanwhile form the next one. So a single call does not wait, and many calls share one
 * round trip. `perform` returns one result for each item, in order. Its error rejects all calls of
 * the batch.
 */
export function createBatcher<Item, Result>(
  perform: (items: Item[]) => Promise<Result[]>,
  { limit = 256, answerWithinMs = 10_000, gather = null }: BatcherOptions = {},
): (item: Item) => Promise<Result> {
  const waiting: { item: Item; resolve(result: Result): void; reject(error: unknown): void }[] = [];
  let busy = false;
  /** Ends the wait for more calls. */
  let enough: (() => void) | null = null;

  async function gathered({ count, ms }: { count: number; ms: number }): Promise<void> {
    if (waiting.length >= count) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    enough = resolve;
    await promise;
    enough = null;
    clearTimeout(timer);
  }

  async function drain(): Promise<void> {
    if (busy) return;
    busy = true;
    while (waiting.length > 0) {
      if (gather !== null) await gathered(gather);
      const batch = waiting.splice(0, limit);
      try {
        const answer = perform(batch.map(({ item }) => item));
        const results = await (answerWithinMs === null
          ? answer
          : withTimeout(answerWithinMs, answer, NoAnswer));
        for (const [i, { resolve }] of batch.entries()) resolve(results[i] as Result);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    busy = false;
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (gather !== null && waiting.length >= gather.count) enough?.();
      // Calls of the same turn of the event loop share a batch, also those of different sockets.
      setImmediate(() => void drain());
    });
}
