/**
 * Lets callers go on at the same moment, so that what they do next is done together: when as many wait as `expected` says, or
 * `maxMs` after the first has come.
 */
export function createGathering(expected: () => number, maxMs: number): () => Promise<void> {
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;

  function release(): void {
    clearTimeout(timer);
    timer = undefined;
    const released = waiting;
    waiting = [];
    for (const goOn of released) goOn();
  }

  return () =>
    new Promise((resolve) => {
      if (waiting.push(resolve) >= expected()) release();
      else timer ??= setTimeout(release, maxMs);
    });
}
