/**
 * Wakes one waiter before its time. A ring while nobody waits is not lost: the next wait returns at
 * once. So: look for work, then wait, and nothing that came in between is overlooked.
 */
export interface Bell {
  ring(): void;
  /** Resolves at the next ring, or after `ms` milliseconds. True for a ring. */
  wait(ms: number): Promise<boolean>;
}

export function createBell(): Bell {
  let rung = false;
  let wake: (() => void) | null = null;
  return {
    ring() {
      rung = true;
      wake?.();
    },
    async wait(ms) {
      if (!rung) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        wake = null;
      }
      const wasRung = rung;
      rung = false;
      return wasRung;
    },
  };
}
