import type { SignInFailed } from '../domain/access.ts';

/** Failures of one address gather for this time after the first, which is told at once. */
const GATHER_MS = 60_000;
/** Addresses that are told apart at a time. The failures of further ones are added up. */
const ADDRESSES = 100;

interface Window {
  since: number;
  /** Null if nothing failed since the last event. */
  counted: Omit<SignInFailed, 'address'> | null;
}

export interface FailedSignIns {
  /** Counts a failure. `address` is what the rate limit counts by. */
  count(address: string, reason: string): void;
  /** Tells what was counted and not told yet. */
  close(): void;
}

/**
 * Counts failed sign-ins by address, so that a flood of them makes few events: the first failure of
 * an address is told at once, those of the next minute together. Nothing waits for it.
 */
export function createFailedSignIns(
  tell: (failed: SignInFailed) => void,
  { gatherMs = GATHER_MS, addresses = ADDRESSES } = {},
): FailedSignIns {
  /** By address; null stands for all that there is no place for. */
  const windows = new Map<string | null, Window>();
  let timer: NodeJS.Timeout | undefined;

  function count(address: string, reason: string): void {
    const known = windows.has(address) || windows.size < addresses;
    const key = known ? address : null;
    const at = new Date().toISOString();
    const window = windows.get(key);
    if (!window) {
      const reasons = { [reason]: 1 };
      tell({ address: key, failures: 1, reasons, first_at: at, last_at: at });
      windows.set(key, { since: performance.now(), counted: null });
    } else {
      const before = window.counted ?? { failures: 0, reasons: {}, first_at: at, last_at: at };
      window.counted = {
        ...before,
        failures: before.failures + 1,
        reasons: { ...before.reasons, [reason]: (before.reasons[reason] ?? 0) + 1 },
        last_at: at,
      };
    }
    timer ??= setInterval(sweep, gatherMs / 10).unref();
  }

  /** Tells what the windows that are over have counted, and forgets those without a failure. */
  function sweep(): void {
    const now = performance.now();
    for (const [address, window] of windows) {
      if (now - window.since < gatherMs) continue;
      if (window.counted) tell({ address, ...window.counted });
      if (window.counted) windows.set(address, { since: now, counted: null });
      else windows.delete(address);
    }
    if (windows.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    count,
    close() {
      clearInterval(timer);
      for (const [address, { counted }] of windows) if (counted) tell({ address, ...counted });
      windows.clear();
    },
  };
}
