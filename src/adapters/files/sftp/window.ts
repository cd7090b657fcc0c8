export interface Window {
  /**
   * Works through all items. When one fails, no more are begun; its error is thrown only when those under way
   * have ended: nothing touches the caller's buffer after that.
   */
  all<Item>(items: Iterable<Item>, work: (item: Item) => Promise<void>): Promise<void>;
  /** Lets so many more be under way. */
  grow(by: number): void;
}

/** Bounds how many requests are in flight at once, over all calls. */
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

  async function all<Item>(items: Iterable<Item>, work: (item: Item) => Promise<void>): Promise<void> {
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
  }

  return {
    all,
    grow(by) {
      for (let more = 0; more < by; more++) leave();
    },
  };
}
