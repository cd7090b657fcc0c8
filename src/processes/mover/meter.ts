import { countOf, type SharedCounter } from '../../concurrency/shared-counter.ts';
import type { AttemptFigures } from '../../domain/transfers/transfer.ts';

/**
 * Measures an attempt by the bytes that its destination has acknowledged. The count never falls
 * within an attempt, unless the source is replaced by a file of another size: bytes that are sent
 * again after a broken connection count once.
 */
export interface Meter {
  /** Starts at `delivered` bytes of a file; `counter` counts the bytes that follow. */
  start(size: number, delivered: number, counter: SharedCounter | undefined): void;
  /** Records that the destination has this many bytes from the start, in whole chunks. */
  delivered(bytes: number): void;
  /** Records that the destination has the whole file. */
  complete(): void;
  /** Returns the figures of now, and reports the bytes since the last call. */
  read(): AttemptFigures;
  /** Returns the figures with only those bytes that the next attempt need not send again. */
  resumable(): AttemptFigures;
  /** Returns the most bytes that the destination had when it was opened. */
  resumed(): number;
}

/** Creates a meter. `moved` gets each number of bytes that has arrived. */
export function createMeter(moved: (bytes: number) => void): Meter {
  const startedAt = performance.now();
  const figures: AttemptFigures = { transferred_bytes: 0, size_bytes: null, speed_bps: null };
  let counter: SharedCounter | undefined;
  let countedFrom = 0;
  let inChunks = 0;
  let arrived = 0;
  let resumed = 0;

  function raiseTo(bytes: number): void {
    const more = Math.min(figures.size_bytes ?? 0, bytes) - figures.transferred_bytes;
    if (more <= 0) return;
    figures.transferred_bytes += more;
    arrived += more;
    figures.speed_bps = Math.round((arrived * 8_000) / Math.max(1, performance.now() - startedAt));
    moved(more);
  }

  function read(): AttemptFigures {
    if (counter) raiseTo(countedFrom + countOf(counter));
    return { ...figures };
  }

  return {
    start(size, delivered, counts) {
      const isSame = figures.size_bytes === size;
      figures.transferred_bytes = isSame
        ? Math.max(figures.transferred_bytes, delivered)
        : delivered;
      figures.size_bytes = size;
      counter = counts;
      countedFrom = delivered;
      inChunks = delivered;
      resumed = Math.max(resumed, delivered);
    },
    delivered(bytes) {
      inChunks = bytes;
      if (!counter) raiseTo(bytes);
    },
    complete() {
      inChunks = figures.size_bytes ?? 0;
      raiseTo(inChunks);
    },
    read,
    resumed: () => resumed,
    resumable: () => ({ ...read(), transferred_bytes: inChunks }),
  };
}
