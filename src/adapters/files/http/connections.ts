import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { FileError } from '../port.ts';
import { openRangeConnection, type RangeConnection } from './range-connection.ts';
import type { HttpTimeouts } from './timeouts.ts';
import type { Tunnel } from './tunnel.ts';

export interface ConnectionOptions {
  secure: boolean;
  /** The trusted authorities in PEM; null for those of Node. */
  caPem: string | null;
  maxConnections: number;
  timeouts: HttpTimeouts;
  /** Connects through a proxy; null to dial the server. Throws FileError. */
  tunnel: Tunnel | null;
}

/** The connections to one server, which stay open for further requests. */
export interface Connections {
  /** Connects for the requests of Node. */
  readonly agent: http.Agent;
  /** Connections that are open now, in use or idle. */
  readonly open: number;
  readonly closed: boolean;
  /** Returns an idle connection for parts of files, or a new one. */
  takeRange(host: string, port: number): RangeConnection;
  /** Keeps a connection for the next part. */
  keepRange(range: RangeConnection): void;
  close(): void;
}

/** Keeps at most `maxConnections`, if no more requests than that run at once. */
export function createConnections(options: ConnectionOptions): Connections {
  const { secure, caPem, maxConnections, timeouts, tunnel } = options;
  // An agent uses the proxies of the environment only if its options say so.
  const kept = { keepAlive: true, timeout: timeouts.idleMs };
  const agent = secure
    ? new https.Agent({ ...kept, ...(caPem === null ? {} : { ca: caPem }) })
    : new http.Agent(kept);
  const sockets = new Set<Socket>();
  const idleRanges = new Set<RangeConnection>();
  let closed = false;

  const connect = agent.createConnection.bind(agent);
  agent.createConnection = (options, done) => {
    if (!tunnel) return watched(connect(options, done) as Socket, options);
    tunnel({ host: String(options.host), port: Number(options.port) }).then(
      (socket) => {
        if (closed) socket.destroy();
        if (!secure) return done?.(null, count(socket));
        // `https.Agent` starts TLS on the socket that it gets.
        const started = connect({ ...options, socket } as typeof options) as Socket;
        started.once('close', () => socket.destroy());
        done?.(null, watched(started, options));
      },
      (error: Error) => done?.(error, undefined as never),
    );
    return undefined;
  };

  function watched(socket: Socket, options: { host?: unknown; port?: unknown }): Socket {
    const timer = setTimeout(() => socket.destroy(timedOut()), timeouts.connectMs);
    socket.once(secure ? 'secureConnect' : 'connect', () => clearTimeout(timer));
    socket.once('close', () => clearTimeout(timer));
    return count(socket);

    function timedOut(): FileError {
      return new FileError(
        'timeout',
        'connect',
        `${options.host}:${options.port}: no connection within ${timeouts.connectMs / 1000} s`,
      );
    }
  }

  /** Counts a new connection. At the limit, it closes an idle one. */
  function count(socket: Socket): Socket {
    const alive = [...sockets].filter(({ destroyed }) => !destroyed);
    if (alive.length >= maxConnections) idleSocket()?.destroy();
    sockets.add(socket);
    return socket.once('close', () => sockets.delete(socket));
  }

  function idleSocket(): Socket | undefined {
    const range = takeIdleRange();
    return range
      ? range.socket
      : Object.values(agent.freeSockets)
          .flatMap((free) => free ?? [])
          .find(({ destroyed }) => !destroyed);
  }

  function takeIdleRange(): RangeConnection | undefined {
    for (const range of idleRanges) {
      idleRanges.delete(range);
      if (!range.socket.destroyed) return range;
    }
  }

  function openRange(host: string, port: number): RangeConnection {
    const range = openRangeConnection(host, port, timeouts);
    count(range.socket).once('close', () => idleRanges.delete(range));
    return range;
  }

  return {
    agent,
    get open() {
      return [...sockets].filter((socket) => !socket.connecting && !socket.destroyed).length;
    },
    get closed() {
      return closed;
    },
    takeRange: (host, port) => takeIdleRange() ?? openRange(host, port),
    keepRange(range) {
      if (!range.socket.destroyed) idleRanges.add(range);
    },
    close() {
      closed = true;
      agent.destroy();
      for (const socket of sockets) socket.destroy();
    },
  };
}
