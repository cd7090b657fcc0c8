/** Works through items with at most so many under way at once, over all calls. */
export type Window = <Item>(items: Iterable<Item>, work: (item: Item) => Promise<void>) => Promise<void>;

/**
 * A window of `width` requests in flight. When one fails, no more are begun; the error is thrown only when
 * those under way have ended: nothing touches the caller's buffer after that.
 */
export function createWindow(width: number): Window {
  let free = width;
  const waiting: (() => void)[] = [];

  async function enter(): Promise<void> {
    if (free > 0) free--;
    else await new Promise<void>((resume) => waiting.push(resume));
  }

  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else free++;
  }

  return async (items, work) => {
    const failures: unknown[] = [];
    const underway: Promise<void>[] = [];
    for (const item of items) {
      await enter();
      if (failures.length > 0) {
        leave();
        break;
      }
      underway.push(
        work(item)
          .catch((error: unknown) => void failures.push(error))
          .finally(leave),
      );
    }
    await Promise.all(underway);
    if (failures.length > 0) throw failures[0];
  };
}
