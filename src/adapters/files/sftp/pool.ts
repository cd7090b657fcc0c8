import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { abortable } from '../abort.ts';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { FileError, type FileStep } from '../port.ts';
import {
  createBusyWait,
  ENOUGH_MS,
  isBusy,
  isRefused,
  untilForgotten,
} from '../refused-connection.ts';
import type { Connection } from './session.ts';

/**
 * The share of a connection that a file takes: eight small files share one, a big file fills one.
 */
export const SMALL = 1;
export const WHOLE = 8;

export interface Lease {
  readonly connection: Connection;
  /** Ends the use. The connection stays warm for the next. */
  release(): void;
  /** Ends the use at once, and closes the connection if nothing else uses it. */
  abandon(): void;
}

export interface Pool {
  readonly size: number;
  /** True if a connection is idle, or if one more may be opened. */
  readonly hasRoom: boolean;
  /** Whether a file keeps its bytes when it is opened again for writing. Null if unknown yet. */
  reopens: boolean | null;
  /**
   * Returns the least loaded connection, or a new one if all are full and `max` allows. If the
   * server refuses a further one, those that are open are shared. Throws FileError.
   */
  acquire(weight: number, signal: AbortSignal): Promise<Lease>;
  /**
   * Runs work that may be repeated. It is repeated once, on a second connection, if the first one
   * is lost.
   */
  use<Result>(
    signal: AbortSignal,
    step: FileStep,
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result>;
  close(): void;
}

interface Slot {
  /** Resolves with null if an idle connection turned out to be dead. */
  ready: Promise<Connection | null>;
  connection: Connection | null;
  load: number;
  users: number;
  idleTimer?: NodeJS.Timeout;
}

/** Maximum of parallel sign-ins. OpenSSH rejects connections at random from the eleventh on. */
const SIGN_INS_AT_ONCE = 4;

export function createPool(
  open: () => Promise<Connection>,
  max: number,
  timeouts: ConnectionTimeouts,
): Pool {
  const slots = new Set<Slot>();
  const signIns = createSemaphore(SIGN_INS_AT_ONCE);
  let closed = false;
  let enoughUntil = 0;

  const mayOpen = () => slots.size === 0 || (slots.size < max && performance.now() > enoughUntil);

  function choose(weight: number): Slot {
    const [least] = [...slots].sort((a, b) => a.load - b.load);
    if (!least || (least.load + weight > WHOLE && mayOpen())) return create();
    if (least.users === 0) markUsed(least);
    return least;
  }

  function create(): Slot {
    const slot: Slot = {
      ready: openLimited().then(opened, failed),
      connection: null,
      load: 0,
      users: 0,
    };
    slots.add(slot);
    return slot;

    function opened(connection: Connection): Connection {
      slot.connection = connection;
      connection.onLost(() => {
        clearTimeout(slot.idleTimer);
        slots.delete(slot);
      });
      if (closed) connection.close();
      else if (slot.users === 0) markIdle(slot);
      return connection;
    }

    function failed(error: unknown): never {
      slots.delete(slot);
      throw error;
    }
  }

  async function openLimited(): Promise<Connection> {
    const release = await signIns.acquire(undefined);
    return open().finally(release);
  }

  function markIdle(slot: Slot): void {
    slot.idleTimer = setTimeout(() => slot.connection?.close(), timeouts.idleMs).unref();
  }

  function markUsed(slot: Slot): void {
    clearTimeout(slot.idleTimer);
    const { connection } = slot;
    if (connection && performance.now() - connection.answeredAt > timeouts.trustMs)
      slot.ready = test(connection);
  }

  async function test(connection: Connection): Promise<Connection | null> {
    const timer = setTimeout(() => connection.close(), timeouts.connectMs);
    const alive = await connection
      .request<string>((sftp, done) => sftp.realpath('.', done))
      .catch(() => null);
    clearTimeout(timer);
    return alive === null && !connection.usable ? null : connection;
  }

  function giveBack(slot: Slot, weight: number): void {
    slot.load -= weight;
    slot.users--;
    if (slot.users === 0 && slot.connection?.usable) markIdle(slot);
  }

  async function acquire(weight: number, signal: AbortSignal): Promise<Lease> {
    const untilNextTry = createBusyWait(performance.now() + timeouts.queueMs, timeouts.busyMs);
    for (let hasWaited = false; ; ) {
      if (closed) throw new FileError('connection_failed', 'connect', 'The endpoint is closed');
      const slot = choose(weight);
      slot.load += weight;
      slot.users++;
      try {
        const connection = await abortable(slot.ready, signal, 'connect');
        if (connection?.usable) return lease(slot, connection, weight);
        giveBack(slot, weight);
      } catch (error) {
        giveBack(slot, weight);
        if (signal.aborted || !isRefused(error)) throw error;
        const next = nextTry(isBusy(error), hasWaited);
        if (next === null) throw error;
        if (next === 'at once') continue;
        if (next === 'when room' && !(await untilNextTry(signal))) throw error;
        if (next === 'when forgotten') {
          hasWaited = true;
          await untilForgotten(signal);
        }
      }
    }
  }

  /** Returns when to try again after the server has refused a connection. Null for never. */
  function nextTry(
    busy: boolean,
    hasWaited: boolean,
  ): 'at once' | 'when room' | 'when forgotten' | null {
    if (slots.size > 0 || busy) enoughUntil = performance.now() + ENOUGH_MS;
    if (slots.size > 0) return 'at once';
    // Other processes may have all that the server accepts. Callers try again together.
    if (busy) return 'when room';
    return hasWaited || performance.now() > enoughUntil ? null : 'when forgotten';
  }

  return {
    get size() {
      return [...slots].filter((slot) => slot.connection !== null).length;
    },
    get hasRoom() {
      return mayOpen() || [...slots].some((slot) => slot.users === 0);
    },
    reopens: null,
    acquire,
    async use(signal, step, work) {
      for (let attempt = 1; ; attempt++) {
        const { connection, release } = await acquire(SMALL, signal);
        try {
          return await abortable(work(connection), signal, step);
        } catch (error) {
          if (connection.usable || signal.aborted || attempt === 2) throw error;
        } finally {
          release();
        }
      }
    },
    close() {
      closed = true;
      for (const slot of slots) slot.connection?.close();
    },
  };

  function lease(slot: Slot, connection: Connection, weight: number): Lease {
    let held = true;
    const release = () => {
      if (held) giveBack(slot, weight);
      held = false;
    };
    return {
      connection,
      release,
      abandon() {
        if (held && slot.users === 1) connection.close();
        release();
      },
    };
  }
}
