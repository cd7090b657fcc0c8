import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { connect, type Sql } from './connect.ts';

const POLL_MS = 500;
const HEARTBEAT_MS = 5_000;
const IDLE_MS = 3 * HEARTBEAT_MS;

export interface Held {
  /** Aborts when the lock may be another's: its connection was lost, or the locks were closed. */
  signal: AbortSignal;
  /** Gives the lock back. Does nothing the second time, and where it was lost already. */
  release(): Promise<void>;
}

export interface Locks {
  /**
   * Waits for the lock, also while Postgres is away. Rejects with the reason of the signal when that
   * aborts, and when the locks are closed.
   */
  acquire(name: string, signal: AbortSignal): Promise<Held>;
  /** Null where somebody holds it, in this process or another. Rejects where Postgres can't be asked. */
  tryAcquire(name: string): Promise<Held | null>;
  /** Somebody holds it, in this process or another. */
  isHeld(name: string): Promise<boolean>;
  /** Gives back every lock, aborts their signals and ends all waiting. */
  close(): Promise<void>;
}

/**
 * Named locks that end with this process: advisory locks of one connection of its own, which is made when
 * the first one is asked for. Waiting is polling (every `pollMs` milliseconds, give or take a quarter), so
 * that one connection serves any number of waiters.
 */
export function createLocks(url: string, { pollMs = POLL_MS }: { pollMs?: number } = {}): Locks {
  const closing = new AbortController();
  /** The locks held or asked for here. Postgres would grant them again to the session that has them. */
  const taken = new Map<string, AbortController>();
  let sql = open();
  const heartbeat = setInterval(() => void beat(), HEARTBEAT_MS).unref();

  function open(): Sql {
    const opened = connect(url, {
      max: 1,
      applicationName: 'waybill locks',
      keepOpen: true,
      // The server drops the locks of a machine that has vanished within seconds, and of a process that is
      // frozen (its kernel still answers for it) when its heartbeat has failed twice.
      settings: { tcp_keepalives_idle: 5, tcp_keepalives_interval: 2, tcp_keepalives_count: 3, idle_session_timeout: IDLE_MS },
      onClose: () => opened === sql && loseAll('the connection that held the lock was lost'),
    });
    return opened;
  }

  function loseAll(why: string): void {
    const lost = [...taken.values()];
    taken.clear();
    for (const controller of lost) controller.abort(new Error(why));
  }

  /** A connection whose other end has vanished does not close by itself for a long time. */
  async function beat(): Promise<void> {
    if (taken.size === 0) return;
    const asked = sql;
    const answer = await Promise.race([asked`select 1`.catch(() => null), setTimeout(HEARTBEAT_MS, 'deaf', { ref: false })]);
    if (answer !== 'deaf' || asked !== sql || closing.signal.aborted) return;
    sql = open();
    loseAll('the connection that held the lock does not answer');
    await asked.end({ timeout: 0 });
  }

  async function tryAcquire(name: string): Promise<Held | null> {
    closing.signal.throwIfAborted();
    if (taken.has(name)) return null;
    const controller = new AbortController();
    taken.set(name, controller);
    let locked = false;
    try {
      const [row] = await sql<{ locked: boolean }[]>`select pg_try_advisory_lock(${keyOf(name)}) as locked`;
      locked = row?.locked === true && !controller.signal.aborted;
    } finally {
      if (!locked) forget(name, controller);
    }
    return locked ? hold(name, controller) : null;
  }

  function hold(name: string, controller: AbortController): Held {
    let released: Promise<void> | null = null;
    const release = async () => {
      if (controller.signal.aborted) return;
      // What fails here fails with its connection, and the lock goes with that.
      await sql`select pg_advisory_unlock(${keyOf(name)})`.catch(() => {});
      forget(name, controller);
    };
    return {
      signal: controller.signal,
      release() {
        released ??= release();
        return released;
      },
    };
  }

  function forget(name: string, controller: AbortController): void {
    if (taken.get(name) === controller) taken.delete(name);
  }

  async function acquire(name: string, signal: AbortSignal): Promise<Held> {
    const ended = AbortSignal.any([signal, closing.signal]);
    for (;;) {
      ended.throwIfAborted();
      const held = await tryAcquire(name).catch(() => null);
      if (held !== null && !ended.aborted) return held;
      await held?.release();
      await setTimeout(pollMs * (0.75 + Math.random() / 2), undefined, { signal: ended }).catch(() => {});
    }
  }

  async function isHeld(name: string): Promise<boolean> {
    const key = BigInt.asUintN(64, keyOf(name));
    const held = await sql`
      select from pg_locks
       where locktype = 'advisory' and granted and objsubid = 1 and classid = ${key >> 32n}::bigint::oid and objid = ${key & 0xffffffffn}::bigint::oid
         and database = (select oid from pg_database where datname = current_database())`;
    return held.length > 0;
  }

  async function close(): Promise<void> {
    clearInterval(heartbeat);
    closing.abort(new Error('the locks were closed'));
    loseAll('the locks were closed');
    await sql.end({ timeout: 1 });
  }

  return { acquire, tryAcquire, isHeld, close };
}

/** The first 64 bits of a hash: the same in every process, and apart from other users of advisory locks. */
function keyOf(name: string): bigint {
  return createHash('sha256').update(`waybill lock ${name}`).digest().readBigInt64BE();
}
