import { setTimeout as sleep } from 'node:timers/promises';

const SHORTEST_MS = 15;
const LONGEST_MS = 200;
/** A pause in relation to the time that the wait has taken so far. */
const SHARE = 1 / 10;

/** Returns a pause between two looks at a state. Long waits look less often: each is a query. */
export function createPauses(): () => Promise<void> {
  const began = performance.now();
  return () => {
    const waited = performance.now() - began;
    return sleep(Math.min(LONGEST_MS, Math.max(SHORTEST_MS, waited * SHARE)));
  };
}
