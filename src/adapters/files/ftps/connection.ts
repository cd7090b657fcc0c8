import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { FTPContext } from 'basic-ftp';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { resetSocket } from '../reset-socket.ts';
import { silentError } from '../slow-connection.ts';
import { type Commands, dataConnectionsOf, type OpenDataConnection } from './data-connection.ts';
import { isDataRefusal } from './errors.ts';

/**
 * One signed-in control connection. Its methods throw the errors of the server, of basic-ftp or of
 * Node.js unchanged; `fileError` converts them.
 */
export interface Connection extends Commands {
  /** False as soon as it is lost or closed. */
  readonly usable: boolean;
  /** Features from the server's answer to FEAT, such as `MLST` or `REST`. */
  readonly features: ReadonlyMap<string, string>;
  openDataConnection: OpenDataConnection;
  /**
   * Returns the outcome of a promise that may take so many times the longest silence of the server.
   * After one, it cuts the connection and throws if the server does not even greet a new one.
   */
  inStalls<Result>(promise: Promise<Result>, stalls: number): Promise<Result>;
  /** Cuts both connections at once. Everything under way fails with the error. */
  lose(error: Error): void;
  /** Does so for a caller that needs no answer any more. */
  abandon(): void;
  /** Ends a connection with no command under way. */
  close(): void;
}

/**
 * Creates the Connection for a control connection that has signed in. `plain` is its TCP
 * connection. `isUnreachable` tries a new connection.
 */
export function connectionOn(
  ftp: FTPContext,
  plain: Socket,
  features: ReadonlyMap<string, string>,
  tls: ConnectionOptions,
  timeouts: ConnectionTimeouts,
  isUnreachable: () => Promise<boolean>,
): Connection {
  const { stallMs } = timeouts;

  function cut(error: Error): void {
    resetSocket(plain);
    ftp.closeWithError(error);
  }

  async function inTime<Result>(promise: Promise<Result>, milliseconds = stallMs): Promise<Result> {
    const { promise: stalled, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      const error = silentError(milliseconds);
      reject(error);
      cut(error);
    }, milliseconds);
    try {
      return await Promise.race([promise, stalled]);
    } finally {
      clearTimeout(timer);
    }
  }

  async function inStalls<Result>(promise: Promise<Result>, stalls: number): Promise<Result> {
    const answer = inTime(promise, stalls * stallMs);
    if (stalls === 1) return answer;
    let waits = true;
    const timer = setTimeout(async () => {
      if ((await isUnreachable()) && waits)
        cut(silentError(stallMs, ', and nothing on a new connection'));
    }, stallMs);
    return answer.finally(() => {
      waits = false;
      clearTimeout(timer);
    });
  }

  /**
   * Closes a connection that became useless. After 421 the server hangs up. After it rejected a
   * data connection it would reject the next ones too, because each resumes the same TLS session.
   */
  function loseIfUseless(error: Error & { code?: number }): never {
    if (error.code === 421 || isDataRefusal(error)) lose(error);
    throw error;
  }

  const request = (command: string, stalls = 1) =>
    inStalls(ftp.request(command), stalls).catch(loseIfUseless);

  function lose(error: Error): never {
    cut(error);
    throw error;
  }

  return {
    get usable() {
      return !ftp.closed;
    },
    features,
    request,
    openDataConnection: dataConnectionsOf(
      { ftp, request, inTime, cut, lose, loseIfUseless },
      tls,
      timeouts,
    ),
    inTime,
    inStalls,
    lose: cut,
    abandon: () => cut(new Error('the use of the connection was ended')),
    close: () => ftp.close(),
  };
}
