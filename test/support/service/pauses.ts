import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_MS = 15;
const LONGEST_MS = 60;

/** Returns a pause between two looks at a state. Long waits look less often: each is a query. */
export function createPauses(): () => Promise<void> {
  let next = FIRST_MS;
  return async () => {
    await sleep(next);
    next = Math.min(LONGEST_MS, next * 1.3);
  };
}
