import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for `ms` milliseconds, or until the signal aborts. Never rejects. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
