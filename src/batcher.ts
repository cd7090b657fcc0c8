/**
 * Gathers calls: one batch is under way at a time, and what comes meanwhile makes the next one. So a
 * lone call waits for nobody, and many share one round trip. `perform` answers each item, in order; its
 * error is everybody's.
 */
export function createBatcher<Item, Result>(perform: (items: Item[]) => Promise<Result[]>, limit = 256): (item: Item) => Promise<Result> {
  const waiting: { item: Item; resolve(result: Result): void; reject(error: unknown): void }[] = [];
  let busy = false;

  async function drain(): Promise<void> {
    if (busy) return;
    busy = true;
    while (waiting.length > 0) {
      const batch = waiting.splice(0, limit);
      try {
        const results = await perform(batch.map(({ item }) => item));
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
