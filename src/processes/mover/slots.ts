import { createSemaphore } from '../../concurrency/semaphore.ts';
import { SMALL_FILE_BYTES } from '../../domain/small-file.ts';

/** Small files that move in place of one large file. */
const SMALL_PER_SLOT = 8;

/**
 * How many transfers a mover works on. `count` large files move at a time. Small files are mostly
 * round trips, so more of them move at once. A size is known only when the source is open, so the
 * last files decide: each small one that completes adds a slot, and a large one takes all of them
 * away.
 */
export interface Slots {
  /** Large files that may move at once. */
  readonly large: number;
  /** Transfers that may move at once. */
  readonly total: number;
  /** True if only small files have moved lately. */
  readonly small: boolean;
  /** Takes the slot of one attempt, which the claim has counted. */
  take(): Slot;
}

export interface Slot {
  /**
   * Takes the size of the opened source. Waits until a slot for a large file is free, if it is one.
   * Rejects with the signal's reason if that aborts first.
   */
  opened(bytes: number, signal: AbortSignal): Promise<void>;
  completed(): void;
  leave(): void;
}

export function createSlots(count: number): Slots {
  const forLarge = createSemaphore(count);
  let largeFiles = 0;
  let added = 0;

  return {
    large: count,
    get total() {
      return count + added;
    },
    get small() {
      return added > 0;
    },
    take() {
      let isLarge = false;
      let release = () => {};
      return {
        async opened(bytes, signal) {
          if (isLarge || bytes <= SMALL_FILE_BYTES) return;
          isLarge = true;
          largeFiles++;
          added = 0;
          release = await forLarge.acquire(signal);
        },
        completed() {
          if (largeFiles === 0) added = Math.min(added + 1, count * (SMALL_PER_SLOT - 1));
        },
        leave() {
          if (isLarge) largeFiles--;
          isLarge = false;
          release();
        },
      };
    },
  };
}
