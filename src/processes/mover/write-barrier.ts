/**
 * Creates a barrier that releases its callers together, so their next writes share a round trip. It
 * releases when `expected()` callers wait, or `maxMs` after the first arrived.
 */
export function createWriteBarrier(expected: () => number, maxMs: number): () => Promise<void> {
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;

  function release(): void {
    clearTimeout(timer);
    timer = undefined;
    const released = waiting;
    waiting = [];
    for (const proceed of released) proceed();
  }

  return () =>
    new Promise((resolve) => {
      if (waiting.push(resolve) >= expected()) release();
      else timer ??= setTimeout(release, maxMs);
    });
}
