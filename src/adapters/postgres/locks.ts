import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { createBatcher } from '../../concurrency/batcher.ts';
import { pause } from '../../concurrency/pause.ts';
import { connect, type Sql } from './connect.ts';

const POLL_MS = 500;
const APPLICATION_NAME = 'waybill locks';
const HEARTBEAT_MS = 5_000;
/** Postgres ends the session of a process, and with it its locks, after this long in silence. */
export const LOCKS_LOST_AFTER_MS = 3 * HEARTBEAT_MS;

type Mode = 'alone' | 'shared';

/** A lock that this process holds or requests. */
interface Taken {
  name: string;
  mode: Mode;
  /** The session that it is for. The lock is lost with it. */
  session: Sql;
  controller: AbortController;
}

/** The connection was lost before the answer to a request for a lock, or with it. */
class LockLost extends Error {
  override readonly name = 'LockLost';
  readonly code = 'CONNECTION_CLOSED';
}

export interface Held {
  /**
   * Aborts when another process may have the lock: the connection was lost, or the locks were
   * closed.
   */
  signal: AbortSignal;
  /**
   * Returns false if another process may have the lock. It says so even if this process was frozen,
   * or its machine suspended, and has not noticed the loss yet: Postgres ends a session that is
   * silent for 15 s.
   */
  isSure(): boolean;
  /** Releases the lock. Does nothing if it was released or lost before. */
  release(): Promise<void>;
}

export interface Locks {
  /**
   * Waits for the lock, even while Postgres is unavailable. Rejects with the signal's reason when
   * the signal aborts, and when the locks are closed.
   */
  acquire(name: string, signal: AbortSignal): Promise<Held>;
  /** Waits as `acquire`. Any number of processes may share the lock while none has acquired it. */
  acquireShared(name: string, signal: AbortSignal): Promise<Held>;
  /**
   * Returns null if the lock is held, in this process or another. Rejects if Postgres does not
   * answer.
   */
  tryAcquire(name: string): Promise<Held | null>;
  /** Returns whether the lock is held, in this process or another. */
  isHeld(name: string): Promise<boolean>;
  /** Releases every lock, aborts the locks' signals and ends all waits. */
  close(): Promise<void>;
}

/** Returns whether a process has locks of this database, as each one does that runs a role. */
export async function hasLockHolders(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (
      select from pg_stat_activity
       where datname = current_database() and application_name = ${APPLICATION_NAME}) as found`;
  return row?.found === true;
}

/**
 * Creates named locks that end with this process. They are advisory locks of one connection of
 * their own, which opens with the first request. Waiters poll every `pollMs` milliseconds, plus or
 * minus a quarter, so one connection serves any number of waiters.
 */
export function createLocks(url: string, { pollMs = POLL_MS }: { pollMs?: number } = {}): Locks {
  const closing = new AbortController();
  /**
   * The locks that are held or requested here. Postgres would grant a lock again to the session
   * that holds it.
   */
  const taken = new Set<Taken>();
  /** One session: `replace` follows it with another pool. */
  let sql = open();
  /** When the last answered statement was sent. The session has been idle since then at most. */
  let aliveAt = readClocks();
  const heartbeat = setInterval(() => void sendHeartbeat(), HEARTBEAT_MS).unref();
  const modes: Record<Mode, Record<'lock' | 'unlock', (lock: Taken) => Promise<boolean>>> = {
    alone: { lock: batched('pg_try_advisory_lock'), unlock: batched('pg_advisory_unlock') },
    shared: {
      lock: batched('pg_try_advisory_lock_shared'),
      unlock: batched('pg_advisory_unlock_shared'),
    },
  };

  /**
   * Returns a function of Postgres whose concurrent calls share a statement. A call waits for the
   * statement before it, and its session may be lost meanwhile. The next session must not carry the
   * call out: it would grant a lock that counts as lost and is never released. So the statement has
   * null in place of the key of such a call.
   */
  function batched(name: string) {
    const answer = async (locks: Taken[]) => {
      const sentAt = readClocks();
      const keys = locks.map((lock) => (lock.session === sql ? String(keyOf(lock.name)) : null));
      const rows = await sql<{ done: boolean | null }[]>`
        select ${sql(name)}(key) as done
          from unnest(${keys}::bigint[]) with ordinality as asked(key, nr)
         order by nr`;
      aliveAt = sentAt;
      return rows.map(({ done }) => done ?? false);
    };
    // A connection that does not answer is replaced by the heartbeat.
    return createBatcher(answer, { answerWithinMs: null });
  }

  function open(): Sql {
    const opened = connect(url, {
      max: 1,
      applicationName: APPLICATION_NAME,
      keepOpen: true,
      // Within seconds, the server drops the locks of a machine that has vanished. It drops those
      // of a frozen process, whose kernel still answers, after two missed heartbeats.
      settings: {
        tcp_keepalives_idle: 5,
        tcp_keepalives_interval: 2,
        tcp_keepalives_count: 3,
        idle_session_timeout: LOCKS_LOST_AFTER_MS,
      },
      onClose: () => replace(opened, 'the connection that held the lock was lost'),
    });
    return opened;
  }

  /**
   * Ends a pool with its session. The driver would send the statements that wait in it to its next
   * session. A lock that counts as lost would then be granted there, and never released.
   */
  function replace(ended: Sql, why: string): void {
    if (ended !== sql || closing.signal.aborted) return;
    sql = open();
    loseAll(why);
    void ended.end({ timeout: 0 });
  }

  function loseAll(why: string): void {
    const lost = [...taken];
    taken.clear();
    for (const { controller } of lost) controller.abort(new Error(why));
  }

  /** Checks the connection. If its other end has vanished, it stays open for a long time. */
  async function sendHeartbeat(): Promise<void> {
    if (taken.size === 0) return;
    const current = sql;
    const sentAt = readClocks();
    const answer = await Promise.race([
      current`select 1`.then(
        () => 'alive',
        () => 'lost',
      ),
      setTimeout(HEARTBEAT_MS, 'no answer', { ref: false }),
    ]);
    if (answer === 'alive') aliveAt = sentAt;
    if (answer === 'no answer')
      replace(current, 'the connection that held the lock does not answer');
  }

  async function tryToTake(name: string, mode: Mode): Promise<Held | null> {
    closing.signal.throwIfAborted();
    for (const held of taken)
      if (held.name === name && (held.mode === 'alone' || mode === 'alone')) return null;
    const lock: Taken = { name, mode, session: sql, controller: new AbortController() };
    taken.add(lock);
    let locked = false;
    try {
      locked = await modes[mode].lock(lock);
    } finally {
      if (!locked) taken.delete(lock);
    }
    // The request was not sent, or its lock was granted and lost in one packet. The lock may be
    // free, so null would be wrong.
    if (lock.controller.signal.aborted) throw new LockLost();
    return locked ? hold(lock) : null;
  }

  function hold(lock: Taken): Held {
    const { mode, controller } = lock;
    let released: Promise<void> | null = null;
    const release = async () => {
      if (controller.signal.aborted) return;
      // An error here means a lost connection, and the lock is lost with it.
      await modes[mode].unlock(lock).catch(() => {});
      taken.delete(lock);
    };
    return {
      signal: controller.signal,
      isSure: () => !controller.signal.aborted && elapsedMs(aliveAt) < LOCKS_LOST_AFTER_MS,
      release() {
        released ??= release();
        return released;
      },
    };
  }

  async function take(name: string, mode: Mode, signal: AbortSignal): Promise<Held> {
    const ended = AbortSignal.any([signal, closing.signal]);
    for (;;) {
      ended.throwIfAborted();
      const held = await tryToTake(name, mode).catch(() => null);
      if (held !== null && !ended.aborted) return held;
      await held?.release();
      await pause(pollMs * (0.75 + Math.random() / 2), ended);
    }
  }

  async function isHeld(name: string): Promise<boolean> {
    const key = BigInt.asUintN(64, keyOf(name));
    const held = await sql`
      select from pg_locks
       where locktype = 'advisory' and granted and objsubid = 1
         and classid = ${key >> 32n}::bigint::oid and objid = ${key & 0xffffffffn}::bigint::oid
         and database = (select oid from pg_database where datname = current_database())`;
    return held.length > 0;
  }

  async function close(): Promise<void> {
    clearInterval(heartbeat);
    closing.abort(new Error('the locks were closed'));
    loseAll('the locks were closed');
    await sql.end({ timeout: 1 });
  }

  return {
    acquire: (name, signal) => take(name, 'alone', signal),
    acquireShared: (name, signal) => take(name, 'shared', signal),
    tryAcquire: (name) => tryToTake(name, 'alone'),
    isHeld,
    close,
  };
}

interface Clocks {
  monotonic: number;
  wall: number;
}

function readClocks(): Clocks {
  return { monotonic: performance.now(), wall: Date.now() };
}

/**
 * Returns the milliseconds since then, by the clock that shows more. The monotonic clock stands
 * still while the machine is suspended. The wall clock may be set back.
 */
function elapsedMs(then: Clocks): number {
  const now = readClocks();
  return Math.max(now.monotonic - then.monotonic, now.wall - then.wall);
}

/**
 * Returns the first 64 bits of a hash. They are the same in every process and differ from the keys
 * of other users of advisory locks.
 */
function keyOf(name: string): bigint {
  return createHash('sha256').update(`waybill lock ${name}`).digest().readBigInt64BE();
}
