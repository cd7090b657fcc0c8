import { withTimeout } from './with-timeout.ts';

/** Rejects a call whose batch got no answer in time. The batch may still have taken effect. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  readonly code = 'ETIMEDOUT';
}

interface Call<Item, Result> {
  item: Item;
  /** By `performance.now()`. */
  since: number;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

export interface BatcherOptions {
  /** Maximum number of items in a batch. */
  limit?: number;
  /**
   * Milliseconds, 10,000 by default, after which a batch fails with NoAnswer and the next one
   * begins. A silent connection then does not block later calls. Null if `perform` has its own time
   * limit, or if batches must not overtake each other. A batch after one that failed has less: see
   * `Left`.
   */
  answerWithinMs?: number | null;
  /**
   * A batch begins when `count` calls wait, or `ms` milliseconds after the first of them. By
   * default it begins at once.
   */
  gather?: { count: number; ms: number } | null;
}

/** What a batch gets after one that failed, however long its calls have waited. */
const LEAST_MS = 1_000;

/**
 * Returns how much of a time limit is left for a batch, both in milliseconds: all of it, unless the
 * batch before it failed. Then the time counts from the first of its calls, and a second is left at
 * least. So what waits behind a server that does not answer fails soon after what was sent to it.
 */
export type Left = (limitMs: number) => number;

/**
 * Creates a function that combines concurrent calls. One batch is under way at a time, and calls
 * that arrive meanwhile form the next one. So a single call does not wait, and many calls share one
 * round trip. `perform` returns one result for each item, in order. Its error rejects all calls of
 * the batch.
 */
export function createBatcher<Item, Result>(
  perform: (items: Item[], left: Left) => Promise<Result[]>,
  { limit = 256, answerWithinMs = 10_000, gather = null }: BatcherOptions = {},
): (item: Item) => Promise<Result> {
  const waiting: Call<Item, Result>[] = [];
  let busy = false;
  let hasFailed = false;
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

  function leftFor(batch: Call<Item, Result>[]): Left {
    if (!hasFailed) return (limitMs) => limitMs;
    const waitedMs = performance.now() - (batch[0]?.since ?? 0);
    return (limitMs) => Math.max(limitMs - waitedMs, LEAST_MS);
  }

  async function drain(): Promise<void> {
    if (busy) return;
    busy = true;
    while (waiting.length > 0) {
      if (gather !== null) await gathered(gather);
      const batch = waiting.splice(0, limit);
      const left = leftFor(batch);
      try {
        const answer = perform(
          batch.map(({ item }) => item),
          left,
        );
        const results = await (answerWithinMs === null
          ? answer
          : withTimeout(left(answerWithinMs), answer, NoAnswer));
        hasFailed = false;
        for (const [i, { resolve }] of batch.entries()) resolve(results[i] as Result);
      } catch (error) {
        hasFailed = true;
        for (const { reject } of batch) reject(error);
      }
    }
    busy = false;
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, since: performance.now(), resolve, reject });
      if (gather !== null && waiting.length >= gather.count) enough?.();
      // Calls of the same turn of the event loop share a batch, also those of different sockets.
      setImmediate(() => void drain());
    });
}
