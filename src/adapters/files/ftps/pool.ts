import { abortable } from '../abort.ts';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { FileError, type FileStep } from '../port.ts';
import { createBusyWait, isBusy, isRefused, untilForgotten } from '../refused-connection.ts';
import type { Connection } from './connection.ts';
import { isDataRefusal } from './errors.ts';
import { createPermits } from './permits.ts';
import { createWarmConnections } from './warm-connections.ts';

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

/**
 * How a caller tries to get a connection: `in turn` with a new permit, or `alone` with the one that
 * it has. Null if it must not try again.
 */
type NextTry = 'in turn' | 'alone' | null;

/** Creates a pool of at most `max` connections. FTP allows one use of a connection at a time. */
export function createPool(
  open: () => Promise<Connection>,
  max: number,
  timeouts: ConnectionTimeouts,
): Pool {
  const permits = createPermits(max, timeouts.queueMs);
  const warm = createWarmConnections(timeouts);
  const used = new Set<Connection>();
  let opening = 0;
  let closed = false;

  async function ready(mustBeFresh: boolean): Promise<{ connection: Connection; fresh: boolean }> {
    // The cause that ended one warm connection has probably ended the others too.
    if (mustBeFresh) warm.closeAll();
    const kept = await warm.take();
    if (kept) return { connection: kept, fresh: false };
    if (closed) throw new FileError('connection_failed', 'connect', 'The endpoint is closed');
    opening++;
    const connection = await open().finally(() => opening--);
    if (closed) connection.close();
    return { connection, fresh: true };
  }

  async function acquire(signal: AbortSignal, mustBeFresh = false): Promise<Lease> {
    // This limit also holds for a caller whose permits are withheld again and again.
    const until = performance.now() + timeouts.queueMs;
    const untilNextTry = createBusyWait(until, timeouts.busyMs);
    for (let next: NextTry = 'in turn'; ; ) {
      if (next === 'in turn') await permits.acquire(signal, until);
      const coming = ready(mustBeFresh);
      try {
        const { connection, fresh } = await abortable(coming, signal, 'connect');
        used.add(connection);
        return lease(connection, fresh);
      } catch (error) {
        next =
          isRefused(error) && !signal.aborted
            ? await afterRefusal(error, next, signal, untilNextTry)
            : null;
        if (next !== null) continue;
        // If only the wait was aborted, the connection is kept for the next caller.
        void coming
          .then(
            ({ connection }) => warm.keep(connection),
            () => {},
          )
          .finally(permits.release);
        throw error;
      }
    }
  }

  /**
   * Waits until a caller may try again after the server has refused its connection. The caller has
   * its permit afterwards, unless its turn is to come. Returns null if it must give up. Throws if
   * the signal aborts.
   */
  async function afterRefusal(
    error: unknown,
    last: NextTry,
    signal: AbortSignal,
    untilNextTry: ReturnType<typeof createBusyWait>,
  ): Promise<NextTry> {
    // The server may count a connection that is still being opened.
    if (used.size + opening > 0) {
      permits.withhold();
      return 'in turn';
    }
    // Other processes may have all that the server accepts. One caller at a time tries again.
    if (isBusy(error)) {
      opening++;
      return (await untilNextTry(signal).finally(() => opening--)) ? 'alone' : null;
    }
    if (permits.withheld > 0 && last === 'in turn') {
      await untilForgotten(signal).catch((aborted) => {
        permits.release();
        throw aborted;
      });
      return 'alone';
    }
    permits.giveOutAll();
    return null;
  }

  function lease(connection: Connection, fresh: boolean): Lease {
    // The next borrower may have the same connection: a lease that has ended must not touch it.
    let held = true;
    const release = () => {
      if (!held) return;
      held = false;
      used.delete(connection);
      if (closed) connection.close();
      warm.keep(connection);
      permits.release();
    };
    return {
      connection,
      fresh,
      release,
      abandon() {
        if (held) connection.abandon();
        release();
      },
    };
  }

  return {
    get size() {
      return [...used, ...warm.connections].filter(({ usable }) => usable).length;
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
      warm.closeAll();
      for (const connection of used) connection.lose(new Error('the endpoint was closed'));
    },
  };
}
