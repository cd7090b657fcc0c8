import { within } from './within.ts';

/** Of a call whose batch got no answer in time. What it asked for may be done all the same. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  readonly code = 'ETIMEDOUT';
}

export interface BatcherOptions {
  /** Items of a batch at most. */
  limit?: number;
  /**
   * After so many milliseconds, 10,000 by default, a batch fails with NoAnswer and the next one begins: one connection that fell
   * silent does not hold up whatever comes. null where `perform` has a limit of its own, or must not be overtaken.
   */
  answerWithinMs?: number | null;
}

/**
 * Gathers calls: one batch is under way at a time, and what comes meanwhile makes the next one. So a
 * lone call waits for nobody, and many share one round trip. `perform` answers each item, in order; its
 * error is everybody's.
 */
export function createBatcher<Item, Result>(
  perform: (items: Item[]) => Promise<Result[]>,
  { limit = 256, answerWithinMs = 10_000 }: BatcherOptions = {},
): (item: Item) => Promise<Result> {
  const waiting: { item: Item; resolve(result: Result): void; reject(error: unknown): void }[] = [];
  let busy = false;

  async function drain(): Promise<void> {
    if (busy) return;
    busy = true;
    while (waiting.length > 0) {
      const batch = waiting.splice(0, limit);
      try {
        const answer = perform(batch.map(({ item }) => item));
        const results = await (answerWithinMs === null ? answer : within(answerWithinMs, answer, NoAnswer));
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
      // Calls made in the same turn of the event loop belong together.
      queueMicrotask(() => void drain());
    });
}
