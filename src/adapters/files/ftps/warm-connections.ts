import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import type { Connection } from './connection.ts';

/** Connections that no file uses. Each one closes after `idleMs`. */
export interface WarmConnections {
  readonly connections: readonly Connection[];
  /** Returns the connection that was used last. Null if none answers any more. */
  take(): Promise<Connection | null>;
  keep(connection: Connection): void;
  closeAll(): void;
}

interface Idle {
  connection: Connection;
  since: number;
  timer: NodeJS.Timeout;
}

export function createWarmConnections({
  idleMs,
  trustMs,
  connectMs,
}: ConnectionTimeouts): WarmConnections {
  const idle: Idle[] = [];

  async function isAlive({ connection, since }: Idle): Promise<boolean> {
    if (connection.usable && performance.now() - since > trustMs) {
      await connection
        .inTime(connection.request('NOOP'), connectMs)
        .catch((error) => connection.lose(error));
    }
    return connection.usable;
  }

  return {
    get connections() {
      return idle.map(({ connection }) => connection);
    },
    async take() {
      for (let next = idle.pop(); next; next = idle.pop()) {
        clearTimeout(next.timer);
        if (await isAlive(next)) return next.connection;
      }
      return null;
    },
    keep(connection) {
      if (!connection.usable) return;
      const timer = setTimeout(() => {
        idle.splice(idle.indexOf(entry), 1);
        connection.close();
      }, idleMs).unref();
      const entry = { connection, since: performance.now(), timer };
      idle.push(entry);
    },
    closeAll() {
      for (const { connection, timer } of idle.splice(0)) {
        clearTimeout(timer);
        connection.close();
      }
    },
  };
}
