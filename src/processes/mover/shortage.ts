import type { Logger } from 'pino';

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** A shortage that follows so soon is the same one: its pauses continue to grow. */
const SAME_WITHIN_MS = 60_000;

/**
 * A shortage of this process or its machine, such as of places for open files. Another mover may
 * have what this one lacks. So this one claims nothing for a while, then one transfer at a time,
 * until one has completed.
 */
export interface Shortage {
  /** Notes what an attempt lacked. */
  note(reason: string): void;
  /** Returns how many of `wanted` transfers may be claimed now. */
  limit(wanted: number): number;
  /** Notes that transfers were claimed. */
  claimed(): void;
  /** Notes that an attempt has completed, and when it began by `performance.now()`. */
  completed(startedAt: number): void;
}

export function createShortage(
  { logger }: { logger: Logger },
  now: () => number = () => performance.now(),
): Shortage {
  let isShort = false;
  /** True if the attempt that shows whether the shortage goes on has begun. */
  let onTrial = false;
  let pauseMs = 0;
  let notedAt = Number.NEGATIVE_INFINITY;
  let pausedAt = Number.NEGATIVE_INFINITY;

  const isPause = () => now() - pausedAt < pauseMs;

  return {
    note(reason) {
      // The other attempts of the same moment lack the same.
      if (isShort && !onTrial && isPause()) return;
      const isSame = now() - notedAt < SAME_WITHIN_MS;
      pauseMs = isSame ? Math.min(pauseMs * 2, LONGEST_PAUSE_MS) : FIRST_PAUSE_MS;
      isShort = true;
      onTrial = false;
      notedAt = now();
      pausedAt = notedAt;
      logger.error(
        { reason, retry_in_ms: pauseMs },
        'this process lacks something that it needs to move files, so it claims no transfers',
      );
    },
    limit(wanted) {
      if (!isShort) return wanted;
      return isPause() ? 0 : Math.min(wanted, 1);
    },
    claimed() {
      if (!isShort) return;
      onTrial = true;
      pausedAt = now();
    },
    completed(startedAt) {
      if (!isShort || startedAt < notedAt) return;
      isShort = false;
      onTrial = false;
      logger.info('this process has what it needs to move files, and claims transfers again');
    },
  };
}
