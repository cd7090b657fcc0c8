/*
 * All services of an installation share one lock. `log copy --switch` takes it alone, so it finds
 * every process that could still append to the old log, also one that only serves the API.
 *
 * What can go wrong:
 * - The log moves while a service starts. The service waits for the end, and then finds its engine
 *   old.
 * - A service loses the lock, with its connection to Postgres. It takes the lock again. If the log
 *   moved meanwhile, it ends, because what it would append is in no other log.
 * - It appends before it ends. A log in Postgres is closed (follow-copy.ts). An EventStoreDB cannot
 *   be, so the process itself refuses while it is not sure of the lock, and the move waits for what
 *   has begun before.
 */
import { requireEngine } from '../../adapters/event-store/engine-of-log.ts';
import { type EventStore, EventStoreUnavailable } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Held, Locks } from '../../adapters/postgres/locks.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import { aborted } from '../../concurrency/aborted.ts';
import { pause } from '../../concurrency/pause.ts';

export const RUNNING_SERVICES = 'running services';

/** A start that waits longer than this says why. */
const QUICK_MS = 1_000;
const PAUSE_MS = 500;

export const WAITS =
  'waits for the lock of running services: waybill log copy --switch has it, or Postgres does ' +
  'not answer';

/** The place of this process among the running services. */
export interface Membership {
  /** The shared lock, also after its loss. Null in a process that never joins: a command. */
  lock: Held | null;
}

/**
 * Returns the store without appends while this process may have lost its lock. An append that has
 * begun before may still arrive, within the time limit of the store.
 */
export function whileJoined(store: EventStore, membership: Membership): EventStore {
  return {
    ...store,
    async append(...given) {
      if (membership.lock?.isSure() === false)
        throw new EventStoreUnavailable(
          'This process has lost its lock in Postgres, so the log may be moving to another engine',
        );
      return store.append(...given);
    },
  };
}

interface Deps {
  membership: Membership;
  locks: Locks;
  sql: Sql;
  store: EventStore;
  logId: string;
}

/**
 * Joins the running services, until the locks are closed. Waits while the log moves: then calls
 * `onWait` once. Throws the signal's reason when the signal aborts.
 */
export async function joinServices(
  locks: Locks,
  signal: AbortSignal,
  onWait: (detail: string) => void,
): Promise<Held> {
  const late = setTimeout(() => onWait(WAITS), QUICK_MS);
  try {
    return await locks.acquireShared(RUNNING_SERVICES, signal);
  } finally {
    clearTimeout(late);
  }
}

/** Joins again after each loss, until the signal aborts. Throws EventStoreUnusable. */
export async function stayJoined(deps: Deps, first: Held, signal: AbortSignal): Promise<void> {
  let held: Held | null = first;
  while (held) {
    deps.membership.lock = held;
    await aborted(AbortSignal.any([held.signal, signal]));
    held = signal.aborted ? null : await joinAgain(deps, signal);
  }
}

/** Returns null if the signal aborts first, or the locks are closed. */
async function joinAgain(
  { locks, sql, logId, store }: Deps,
  signal: AbortSignal,
): Promise<Held | null> {
  const held = await locks.acquireShared(RUNNING_SERVICES, signal).catch(() => null);
  while (held) {
    try {
      await requireEngine(sql, logId, store.engine);
      return held;
    } catch (error) {
      if (!isStoreUnavailable(error)) throw error;
    }
    if (signal.aborted) return null;
    await pause(PAUSE_MS, signal);
  }
  return null;
}
