import { abortable } from '../abort.ts';
import { FileError, type FileStep } from '../port.ts';
import type { Connection, FtpsTimeouts } from './connection.ts';

/** The use of one connection by one file. */
export interface Lease {
  readonly connection: Connection;
  /** Ends the use. The connection stays warm for the next. */
  release(): void;
  /** Ends the use at once: the connection is cut. */
  abandon(): void;
}

export interface Pool {
  readonly size: number;
  /** A connection of one's own, as soon as there is one. Throws FileError. */
  acquire(signal: AbortSignal): Promise<Lease>;
  /** Work that may be repeated: it gets a second connection where the first, kept warm, turns out to be dead. */
  use<Result>(signal: AbortSignal, step: FileStep, work: (connection: Connection) => Promise<Result>): Promise<Result>;
  close(): void;
}

interface Idle {
  connection: Connection;
  since: number;
  timer: NodeJS.Timeout;
}

/** At most `max` connections, each in one use at a time, as FTP has it. */
export function createPool(open: () => Promise<Connection>, max: number, timeouts: FtpsTimeouts): Pool {
  const idle: Idle[] = [];
  const used = new Set<Connection>();
  const waiting = new Set<() => void>();
  let places = max;
  let closed = false;

  async function takePlace(signal: AbortSignal): Promise<void> {
    if (places > 0) {
      places--;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () =>
        reject(
          new FileError('timeout', 'open', `All ${max} connections of the endpoint have been in use for ${timeouts.queueMs / 1000} s`),
        ),
      timeouts.queueMs,
    );
    waiting.add(resolve);
    try {
      await abortable(promise, signal, 'connect');
    } catch (error) {
      // Given in the same moment: it is the next one's.
      if (!waiting.has(resolve)) leavePlace();
      throw error;
    } finally {
      clearTimeout(timer);
      waiting.delete(resolve);
    }
  }

  function leavePlace(): void {
    const [next] = waiting;
    if (!next) {
      places++;
      return;
    }
    waiting.delete(next);
    next();
  }

  async function ready(): Promise<Connection> {
    for (let next = idle.pop(); next; next = idle.pop()) {
      clearTimeout(next.timer);
      if (await isAlive(next)) return next.connection;
    }
    if (closed) throw new FileError('connection_failed', 'connect', 'The endpoint is closed');
    const connection = await open();
    if (closed) connection.close();
    return connection;
  }

  async function isAlive({ connection, since }: Idle): Promise<boolean> {
    if (connection.usable && performance.now() - since > timeouts.trustMs) {
      await connection.inTime(connection.request('NOOP'), timeouts.connectMs).catch((error) => connection.lose(error));
    }
    return connection.usable;
  }

  function rest(connection: Connection): void {
    if (!connection.usable) return;
    const timer = setTimeout(() => {
      idle.splice(idle.indexOf(entry), 1);
      connection.close();
    }, timeouts.idleMs).unref();
    const entry = { connection, since: performance.now(), timer };
    idle.push(entry);
  }

  async function acquire(signal: AbortSignal): Promise<Lease> {
    await takePlace(signal);
    const coming = ready();
    try {
      const connection = await abortable(coming, signal, 'connect');
      used.add(connection);
      return lease(connection);
    } catch (error) {
      // Where only the wait was ended, the connection is kept for the next.
      void coming.then(rest, () => {}).finally(leavePlace);
      throw error;
    }
  }

  function lease(connection: Connection): Lease {
    const release = () => {
      if (!used.delete(connection)) return;
      if (closed) connection.close();
      rest(connection);
      leavePlace();
    };
    return {
      connection,
      release,
      abandon() {
        connection.close();
        release();
      },
    };
  }

  return {
    get size() {
      return [...used, ...idle.map((entry) => entry.connection)].filter((connection) => connection.usable).length;
    },
    acquire,
    async use(signal, step, work) {
      for (let attempt = 1; ; attempt++) {
        const { connection, release, abandon } = await acquire(signal);
        try {
          return await abortable(work(connection), signal, step);
        } catch (error) {
          // A command may still be under way.
          if (signal.aborted) abandon();
          if (connection.usable || signal.aborted || attempt === 2) throw error;
        } finally {
          release();
        }
      }
    },
    close() {
      closed = true;
      for (const { connection, timer } of idle.splice(0)) {
        clearTimeout(timer);
        connection.close();
      }
      for (const connection of used) connection.close();
    },
  };
}
