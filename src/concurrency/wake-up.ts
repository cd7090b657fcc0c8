/**
 * Ends the wait of one waiter early. A wake-up that arrives while nothing waits is kept: the next
 * wait returns at once. So a loop that looks for work and then waits misses nothing in between.
 */
export interface WakeUp {
  wake(): void;
  /** Resolves at the next wake-up, with true, or after `ms` milliseconds, with false. */
  wait(ms: number): Promise<boolean>;
}

export function createWakeUp(): WakeUp {
  let pending = false;
  let resume: (() => void) | null = null;
  return {
    wake() {
      pending = true;
      resume?.();
    },
    async wait(ms) {
      if (!pending) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          resume = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        resume = null;
      }
      const woken = pending;
      pending = false;
      return woken;
    },
  };
}
