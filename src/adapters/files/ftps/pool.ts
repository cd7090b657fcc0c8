import { abortable } from '../abort.ts';
import { FileError, type FileStep } from '../port.ts';
import {
  createBusyWait,
  ENOUGH_MS,
  isBusy,
  isRefused,
  untilForgotten,
} from '../refused-connection.ts';
import type { Connection } from './connection.ts';
import { isDataRefusal } from './errors.ts';
import type { FtpsTimeouts } from './timeouts.ts';

/** The use of one connection by one file. */
export interface Lease {
  readonly connection: Connection;
  /** False for a connection that was kept warm. */
  readonly fresh: boolean;
  /** Ends the use. The connection stays warm for the next. */
  release(): void;
  /** Ends the use at once: the connection is cut. */
  abandon(): void;
}

export interface Pool {
  readonly size: number;
  /**
   * Runs work with its own connection as soon as one is free. If the work fails, the pool ends the
   * lease; otherwise the work must end it. If the server rejects a data connection of a connection
   * that was kept warm, the work is repeated once on a new one. Throws FileError if there is no
   * connection.
   */
  acquireFor<Result>(signal: AbortSignal, work: (lease: Lease) => Promise<Result>): Promise<Result>;
  /** Runs work that may be repeated: it runs once more on a new connection if the first is lost. */
  use<Result>(
    signal: AbortSignal,
    step: FileStep,
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result>;
  close(): void;
}

interface Idle {
  connection: Connection;
  since: number;
  timer: NodeJS.Timeout;
}

const ACCEPTS_NO_MORE = ', and the server accepts no more: lower max_connections';

/** Creates a pool of at most `max` connections. FTP allows one use of a connection at a time. */
export function createPool(
  open: () => Promise<Connection>,
  max: number,
  timeouts: FtpsTimeouts,
): Pool {
  const idle: Idle[] = [];
  const used = new Set<Connection>();
  const waiting = new Set<() => void>();
  let permits = max;
  /** The timers of permits that are withheld because the server has refused their connections. */
  const withheld = new Set<NodeJS.Timeout>();
  let opening = 0;
  let closed = false;

  async function acquirePermit(signal: AbortSignal, until: number): Promise<void> {
    if (permits > 0) {
      permits--;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () =>
        reject(
          new FileError(
            'timeout',
            'open',
            `All ${max - withheld.size} connections of the endpoint have been in use for ` +
              `${timeouts.queueMs / 1000} s${withheld.size > 0 ? ACCEPTS_NO_MORE : ''}`,
            { busy: true },
          ),
        ),
      Math.max(0, until - performance.now()),
    );
    waiting.add(resolve);
    try {
      await abortable(promise, signal, 'connect');
    } catch (error) {
      // The permit was granted in the same moment: pass it on.
      if (!waiting.has(resolve)) releasePermit();
      throw error;
    } finally {
      clearTimeout(timer);
      waiting.delete(resolve);
    }
  }

  function releasePermit(): void {
    const [next] = waiting;
    if (!next) {
      permits++;
      return;
    }
    waiting.delete(next);
    next();
  }

  async function ready(mustBeFresh: boolean): Promise<{ connection: Connection; fresh: boolean }> {
    // The cause that ended one warm connection has probably ended the others too.
    if (mustBeFresh) closeIdle();
    for (let next = idle.pop(); next; next = idle.pop()) {
      clearTimeout(next.timer);
      if (await isAlive(next)) return { connection: next.connection, fresh: false };
    }
    if (closed) throw new FileError('connection_failed', 'connect', 'The endpoint is closed');
    opening++;
    const connection = await open().finally(() => opening--);
    if (closed) connection.close();
    return { connection, fresh: true };
  }

  function closeIdle(): void {
    for (const { connection, timer } of idle.splice(0)) {
      clearTimeout(timer);
      connection.close();
    }
  }

  async function isAlive({ connection, since }: Idle): Promise<boolean> {
    if (connection.usable && performance.now() - since > timeouts.trustMs) {
      await connection
        .inTime(connection.request('NOOP'), timeouts.connectMs)
        .catch((error) => connection.lose(error));
    }
    return connection.usable;
  }

  function keepWarm(connection: Connection): void {
    if (!connection.usable) return;
    const timer = setTimeout(() => {
      idle.splice(idle.indexOf(entry), 1);
      connection.close();
    }, timeouts.idleMs).unref();
    const entry = { connection, since: performance.now(), timer };
    idle.push(entry);
  }

  async function acquire(signal: AbortSignal, mustBeFresh = false): Promise<Lease> {
    // Permits that the server refuses come back as often as it takes: the wait ends all the same.
    const until = performance.now() + timeouts.queueMs;
    const untilNextTry = createBusyWait(until, timeouts.busyMs);
    for (let alone = false; ; ) {
      if (!alone) await acquirePermit(signal, until);
      const coming = ready(mustBeFresh);
      try {
        const { connection, fresh } = await abortable(coming, signal, 'connect');
        used.add(connection);
        return lease(connection, fresh);
      } catch (error) {
        if (!signal.aborted && isRefused(error)) {
          // The server may count a connection that is still being opened.
          if (used.size + opening > 0) {
            withhold();
            alone = false;
            continue;
          }
          // Other processes may have all that the server accepts. One caller at a time tries again.
          if (isBusy(error)) {
            opening++;
            alone = await untilNextTry(signal).finally(() => opening--);
            if (alone) continue;
            releasePermit();
            throw error;
          }
          if (withheld.size > 0 && !alone) {
            alone = true;
            await untilForgotten(signal).catch((aborted) => {
              releasePermit();
              throw aborted;
            });
            continue;
          }
          for (const timer of withheld) giveOut(timer);
        }
        // If only the wait was aborted, the connection is kept for the next caller.
        void coming
          .then(
            ({ connection }) => keepWarm(connection),
            () => {},
          )
          .finally(releasePermit);
        throw error;
      }
    }
  }

  function withhold(): void {
    const timer = setTimeout(() => giveOut(timer), ENOUGH_MS).unref();
    withheld.add(timer);
  }

  function giveOut(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    if (withheld.delete(timer)) releasePermit();
  }

  function lease(connection: Connection, fresh: boolean): Lease {
    const release = () => {
      if (!used.delete(connection)) return;
      if (closed) connection.close();
      keepWarm(connection);
      releasePermit();
    };
    return {
      connection,
      fresh,
      release,
      abandon() {
        connection.close();
        release();
      },
    };
  }

  return {
    get size() {
      return [...used, ...idle.map((entry) => entry.connection)].filter(
        (connection) => connection.usable,
      ).length;
    },
    async acquireFor(signal, work) {
      for (let again = false; ; again = true) {
        const lease = await acquire(signal, again);
        try {
          return await work(lease);
        } catch (error) {
          // A command may still be under way.
          if (signal.aborted) lease.abandon();
          else lease.release();
          if (lease.fresh || signal.aborted || !isDataRefusal(error)) throw error;
        }
      }
    },
    async use(signal, step, work) {
      for (let again = false; ; again = true) {
        const { connection, release, abandon } = await acquire(signal, again);
        try {
          return await abortable(work(connection), signal, step);
        } catch (error) {
          // A command may still be under way.
          if (signal.aborted) abandon();
          if (connection.usable || signal.aborted || again) throw error;
        } finally {
          release();
        }
      }
    },
    close() {
      closed = true;
      closeIdle();
      for (const connection of used) connection.close();
    },
  };
}
