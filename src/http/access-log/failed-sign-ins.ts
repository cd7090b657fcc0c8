import type { SignInFailed } from '../../domain/access.ts';

/** How long the failures of one address gather. The first one is recorded at once. */
const GATHER_MS = 60_000;
/** Ids of keys that one event names, at most. */
const KEYS = 10;
/** How many addresses are counted separately at a time. Further ones share one count. */
const ADDRESSES = 100;

type Counted = Omit<SignInFailed, 'address'>;

interface Window {
  since: number;
  /** Null if nothing failed since the last event. */
  counted: Counted | null;
}

export interface FailedSignIns {
  /** Counts a failure. `address` is what the rate limit counts by. */
  count(address: string, reason: string, keyId: string | null): void;
  /** Reports what was counted and not reported yet. */
  close(): void;
}

/**
 * Counts failed sign-ins by address, so that a flood of them makes few events: the first failure of
 * an address is one event, those of the next minute are another. No request waits for it.
 */
export function createFailedSignIns(
  report: (failed: SignInFailed) => void,
  { gatherMs = GATHER_MS, addresses = ADDRESSES } = {},
): FailedSignIns {
  /** By address. Null counts all addresses beyond `addresses`. */
  const windows = new Map<string | null, Window>();
  let timer: NodeJS.Timeout | undefined;

  function count(address: string, reason: string, keyId: string | null): void {
    const known = windows.has(address) || windows.size < addresses;
    const key = known ? address : null;
    const at = new Date().toISOString();
    const window = windows.get(key);
    if (!window) {
      report({ address: key, ...add(nothing(at), { reason, keyId, at }) });
      windows.set(key, { since: performance.now(), counted: null });
    } else {
      window.counted = add(window.counted ?? nothing(at), { reason, keyId, at });
    }
    timer ??= setInterval(sweep, gatherMs / 10).unref();
  }

  /** Reports what the windows that are over have counted, and forgets those without a failure. */
  function sweep(): void {
    const now = performance.now();
    for (const [address, window] of windows) {
      if (now - window.since < gatherMs) continue;
      if (window.counted) report({ address, ...window.counted });
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
      for (const [address, { counted }] of windows) if (counted) report({ address, ...counted });
      windows.clear();
    },
  };
}

function nothing(at: string): Counted {
  return { failures: 0, reasons: {}, key_ids: [], first_at: at, last_at: at };
}

function add(
  { failures, reasons, key_ids, ...before }: Counted,
  { reason, keyId, at }: { reason: string; keyId: string | null; at: string },
): Counted {
  const isNew = keyId !== null && !key_ids.includes(keyId) && key_ids.length < KEYS;
  return {
    ...before,
    failures: failures + 1,
    reasons: { ...reasons, [reason]: (reasons[reason] ?? 0) + 1 },
    key_ids: isNew ? [...key_ids, keyId] : key_ids,
    last_at: at,
  };
}
