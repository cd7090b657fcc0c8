/** Limits how much runs at once. Waiters get their permits in the order of their requests. */
export interface Semaphore {
  /**
   * Resolves when a permit is free, with the function that returns it. Rejects with the signal's
   * reason if that has aborted, or aborts first.
   */
  acquire(signal?: AbortSignal): Promise<() => void>;
  /** Runs `work` while it holds a permit. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Runs `work` for every item, each with its own permit. After a failure, no further item starts.
   * Throws the first error when all started work has ended, so nothing touches the caller's buffer
   * afterwards.
   */
  forEach<Item>(items: Iterable<Item>, work: (item: Item) => Promise<unknown>): Promise<void>;
  /** Adds permits. */
  grow(by: number): void;
}

export function createSemaphore(permits: number): Semaphore {
  const waiting = new Set<() => void>();
  let free = permits;

  function giveBack(): void {
    const [next] = waiting;
    if (!next) return void free++;
    waiting.delete(next);
    next();
  }

  function permit(): () => void {
    let held = true;
    return () => {
      if (held) giveBack();
      held = false;
    };
  }

  function acquire(signal?: AbortSignal): Promise<() => void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (free > 0) {
      free--;
      return Promise.resolve(permit());
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.delete(next);
        reject(signal?.reason);
      };
      const next = () => {
        signal?.removeEventListener('abort', leave);
        resolve(permit());
      };
      waiting.add(next);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  async function run<T>(work: () => Promise<T>): Promise<T> {
    const release = await acquire();
    try {
      return await work();
    } finally {
      release();
    }
  }

  async function forEach<Item>(
    items: Iterable<Item>,
    work: (item: Item) => Promise<unknown>,
  ): Promise<void> {
    const failures: unknown[] = [];
    // Asks for all permits at once: the items of one call go before those of the next.
    const all = Array.from(items, (item) =>
      run(async () => {
        if (failures.length === 0)
          await work(item).catch((error: unknown) => void failures.push(error));
      }),
    );
    await Promise.all(all);
    if (failures.length > 0) throw failures[0];
  }

  return {
    acquire,
    run,
    forEach,
    grow(by) {
      for (let more = 0; more < by; more++) giveBack();
    },
  };
}
