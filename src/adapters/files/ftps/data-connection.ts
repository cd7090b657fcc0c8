import type { OnReadOpts } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import type { FTPContext, FTPResponse } from 'basic-ftp';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { silentError, slowError, watchForSlowness } from '../slow-connection.ts';
import { connected } from './connected.ts';
import { isDataRefusal, isRefusal, SessionExpired } from './errors.ts';

export interface DataConnectionOptions {
  onread?: OnReadOpts;
  /**
   * May send commands while the data connection opens, which costs no time. With an error, the
   * transfer does not start, and rejects with it.
   */
  objection?: (() => Promise<Error | null>) | undefined;
}

/** A file or listing that is under way on a data connection. */
export interface DataConnection {
  socket: TLSSocket;
  /**
   * Waits for data from now on: a server that is silent or too slow breaks both connections.
   * Returns a function that ends the wait.
   */
  expectData(): () => void;
  /**
   * Resolves with the server's reply at the end. Rejects with the error of the server or the
   * connection; the socket is then destroyed.
   */
  ended: Promise<FTPResponse>;
  /** Rejects if the data connection broke and the server gave no reason within 5 s. */
  broken: Promise<never>;
}

/**
 * Opens a data connection and sends the commands. The last one starts the transfer. Rejects if
 * the server refuses a command or rejects the data connection. Any later error is that of
 * `ended`.
 */
export type OpenDataConnection = (
  commands: string[],
  options?: DataConnectionOptions,
) => Promise<DataConnection>;

/** Commands over a control connection, and their time limits. */
export interface Commands {
  /**
   * Sends a command and awaits its reply. Send one at a time, and none during a transfer. The
   * server may be silent for so many `stalls`, by default one.
   */
  request(command: string, stalls?: number): Promise<FTPResponse>;
  /**
   * Returns the promise's outcome. If there is none in time, it cuts the connection and throws. The
   * default time is `stallMs`.
   */
  inTime<Result>(promise: Promise<Result>, milliseconds?: number): Promise<Result>;
}

/** What a data connection uses of its control connection. */
interface Control extends Commands {
  ftp: FTPContext;
  /** Cuts both connections. */
  cut(error: Error): void;
  /** Cuts both connections and throws the error. */
  lose(error: Error): never;
  /** Throws the error. If it makes the connections useless, cuts them first. */
  loseIfUseless(error: Error): never;
}

/**
 * Keeps a socket from beginning the TLS handshake when it has connected. Returns a function that
 * begins it. pyftpdlib closes a data connection that sends a byte before the command.
 */
function withholdTls(socket: TLSSocket): () => void {
  // Node.js begins the handshake in a listener that the new socket already has.
  const listeners = socket.listeners('connect');
  socket.removeAllListeners('connect');
  return () => {
    for (const begin of listeners) begin.call(socket);
  };
}

/** How long a server may take to give the reason why it closed a data connection. */
const REASON_MS = 5_000;
/** Servers do not expire the TLS session of a connection younger than this. */
const YOUNG_MS = 60_000;

/** Returns the `openDataConnection` of a control connection. */
export function dataConnectionsOf(
  { ftp, request, inTime, cut, lose, loseIfUseless }: Control,
  tls: ConnectionOptions,
  { connectMs, stallMs, slowMs }: ConnectionTimeouts,
): OpenDataConnection {
  const control = ftp.socket as TLSSocket;
  // Node.js resumes a TLS session only under the name with which it began. That is the servername,
  // or the address if the endpoint has no name.
  const host = tls.servername ? control.remoteAddress : tls.host;
  const signedInAt = performance.now();
  let extended = true;
  /** True if the server resumed the session for the last data connection; null before the first. */
  let resumed: boolean | null = null;

  async function passivePort(): Promise<number> {
    const reply = extended ? await request('EPSV').catch(refuseExtended) : await request('PASV');
    const [, whole, high, low] = /[|!]{3}(\d+)[|!]|(\d+),(\d+)\D*$/.exec(reply.message) ?? [];
    const port = whole ? Number(whole) : Number(high) * 256 + Number(low);
    if (Number.isInteger(port)) return port;
    throw new Error(`the server names no port for data: ${reply.message}`);
  }

  function refuseExtended(error: unknown): Promise<FTPResponse> {
    if (!isRefusal(error)) throw error;
    extended = false;
    return request('PASV');
  }

  /**
   * Connects to the address of the control connection. A server behind NAT may name
   * another address, which is ignored.
   */
  async function dial({ onread, objection }: DataConnectionOptions) {
    const port = await passivePort();
    // TLS 1.3 sessions may be usable only once: each data connection brings one for the next.
    const session = ftp.tlsSessionStore ?? control.getSession();
    const options: ConnectionOptions & { onread?: OnReadOpts } = {
      ...tls,
      host,
      port,
      ...(session && { session }),
      ...(onread && { onread }),
    };
    const opening = connect(options);
    const beginTls = withholdTls(opening);
    const connecting = connected(opening, connectMs);
    const objected = objection?.() ?? Promise.resolve(null);
    // The data connection may fail first.
    objected.catch(() => undefined);
    const socket = await connecting.catch((error) => {
      error.message = `data connection to port ${port}: ${error.message}`;
      throw error;
    });
    socket.on('session', (next) => {
      ftp.tlsSessionStore = next;
    });
    return { socket, beginTls, objected };
  }

  async function open(
    commands: string[],
    options: DataConnectionOptions = {},
  ): Promise<DataConnection> {
    const { socket, beginTls, objected } = await dial(options).catch((error) => lose(error));
    const { promise: broken, reject: breakOff } = Promise.withResolvers<never>();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const { promise: secured, resolve: secure } = Promise.withResolvers<void>();
    let failure: Error;
    broken.catch(() => {});
    const stall = (error: Error) => {
      cut(error);
      // If the server's last reply is already here, closing the control connection fails nothing.
      socket.destroy(error);
    };
    const expectData = () => {
      socket.setTimeout(stallMs);
      const endWatch = watchForSlowness(socket, slowMs, () => stall(slowError(slowMs)));
      return () => {
        socket.setTimeout(0);
        endWatch();
      };
    };
    socket.on('timeout', () => stall(silentError(stallMs)));
    socket.on('secureConnect', secure).on('error', (error) => {
      failure = error;
    });
    // The server gives the reason on the control connection.
    socket.on('close', (hadError) => hadError && setTimeout(breakOff, REASON_MS, failure).unref());
    const reason = await objected.catch((error: Error) => error);
    if (reason !== null) {
      socket.destroy();
      throw reason;
    }
    try {
      for (const command of commands.slice(0, -1)) await request(command);
      const reply = ftp.handle(commands.at(-1), (answer, task) => {
        if (answer instanceof Error) task.reject(answer);
        else if (answer.code < 200) start();
        else task.resolve(answer);
      });
      beginTls();
      const ended: Promise<FTPResponse> = reply.catch(loseIfUseless);
      ended.catch(() => socket.destroy());
      await inTime(Promise.race([started, ended, broken]));
      // A reply may overtake the TLS handshake of the data connection. It then ends a transfer that
      // has started: it does not refuse the commands.
      const isSecure = await inTime(
        Promise.race([secured.then(() => true), unlessRejected(ended), broken]),
      );
      if (isSecure && hasExpired(socket)) throw new SessionExpired();
      return { socket, expectData, ended, broken };
    } catch (error) {
      socket.destroy();
      if (isRefusal(error)) throw error;
      return lose(error as Error);
    }
  }

  /** Resolves with false when a transfer has ended. Rejects if its data connection was rejected. */
  function unlessRejected(ended: Promise<FTPResponse>): Promise<false> {
    return ended.then(
      () => false,
      (error) => {
        if (isDataRefusal(error)) throw error;
        return false;
      },
    );
  }

  /**
   * Returns true if the server no longer resumes the TLS session of this connection. A server that
   * requires session reuse rejects the data connection, but the client may have sent a small file
   * before that.
   */
  function hasExpired(socket: TLSSocket): boolean {
    const before = resumed ?? performance.now() - signedInAt > YOUNG_MS;
    resumed = socket.isSessionReused();
    return before && !resumed;
  }

  return open;
}
