import type { Socket } from 'node:net';
import type { Client, SFTPWrapper } from 'ssh2';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { resetSocket } from '../reset-socket.ts';
import { createSlowCheck, passedOverError, silentError, slowError } from '../slow-connection.ts';
import { connectionError, type SshError } from './errors.ts';
import { widenReceiveWindow } from './receive-window.ts';

type Callback<Result> = (error: Error | null | undefined, result: Result) => void;

/**
 * One SFTP connection. Its methods throw the errors of the server and of ssh2; `fileError` maps
 * them.
 */
export interface Connection {
  /** False as soon as the connection is lost or closed. */
  readonly usable: boolean;
  /** Maximum bytes of one read request and of one write request. */
  readonly packet: { read: number; write: number };
  /** The fastest answer so far. */
  readonly roundTripMs: number;
  /** When the server last answered, by `performance.now()`. */
  readonly answeredAt: number;
  /** Extensions of SFTP that the server offers, such as `fsync@openssh.com`. */
  readonly extensions: ReadonlySet<string>;
  /**
   * True if the server carries out requests in the order in which they arrive, so that one need not
   * wait for the answer to the one before. SFTP demands this for the requests about one file, but
   * only OpenSSH is known to do it: in servers written in Go, others overtake reads and writes.
   */
  readonly inOrder: boolean;
  /** Returns whether requests of so many bytes would be sent at once, and so in their order. */
  sendsAtOnce(bytes: number): boolean;
  /**
   * Sends a request and waits for its answer. Also fails when the connection is lost or stalls.
   * The answer counts as progress of a slow server, unless the request has `content`.
   */
  request<Result = void>(
    send: (sftp: SFTPWrapper, done: Callback<Result>) => void,
    options?: RequestOptions,
  ): Promise<Result>;
  onLost(listener: () => void): void;
  close(): void;
}

export interface RequestOptions {
  /** Multiplies the limit for a server that says nothing; 1 by default. */
  stalls?: number;
  /** The bytes of a file that the request carries; 0 for one that reads them. */
  content?: number;
}

/** What ssh2 stores of the server's greeting, limits and window. Its types do not declare it. */
interface Negotiated {
  _extensions: Record<string, string>;
  _maxReadLen: number;
  _maxWriteLen: number;
  outgoing?: { window?: number };
}

/** What ssh2 stores of the server's first line: the software and its version. */
interface Greeted {
  _remoteVer?: string;
}

/**
 * Times `slowMs`: how long a request may be without an answer if a later one has had its answer. Far
 * longer than a slow line needs for all that may be on its way.
 */
const PASSED_OVER = 6;

// Channel, subsystem, version, limits. A TCP handshake would only measure the distance to a proxy.
const ROUND_TRIPS_TO_OPEN = 4;

export interface Session {
  ssh: Client & Greeted;
  sftp: SFTPWrapper & Negotiated;
  socket: Socket;
  openedInMs: number;
}

/** Returns the connection of a session. It ends when the server is silent or too slow. */
export function watchSession(
  session: Session,
  { stallMs, slowMs }: ConnectionTimeouts,
): Connection {
  const { ssh, sftp, socket } = session;
  /** The requests without an answer, oldest first. The limit is in stalls. */
  const unanswered = new Map<(error: Error) => void, { limit: number; sentAt: number }>();
  /** When the latest of the requests with an answer was sent. */
  let latestAnswered = 0;
  const listeners: (() => void)[] = [];
  let lost: SshError | null = null;
  let lastByteAt = 0;
  let bytesSeen = 0;
  let acknowledged = 0;
  const slowness = createSlowCheck(() => socket.bytesRead + acknowledged, slowMs);
  let roundTripMs = session.openedInMs / ROUND_TRIPS_TO_OPEN;
  let answeredAt = performance.now();

  function lose(error: SshError): void {
    if (lost) return;
    lost = error;
    clearInterval(watch);
    if (unanswered.size > 0) resetSocket(socket);
    else socket.destroy();
    for (const fail of unanswered.keys()) fail(error);
    for (const listener of listeners) listener();
  }

  function checkForStall(): void {
    if (socket.bytesRead !== bytesSeen) lastByteAt = performance.now();
    bytesSeen = socket.bytesRead;
    if (unanswered.size === 0) return;
    const limitMs = Math.max(...[...unanswered.values()].map(({ limit }) => limit)) * stallMs;
    if (performance.now() - lastByteAt >= limitMs) lose(silentError(limitMs));
    else if (slowness.tooSlow()) lose(slowError(slowMs));
    else if (hasPassedOverOne()) lose(passedOverError(PASSED_OVER * slowMs));
  }

  /** Returns whether the server goes on without the answer to one request: others hide that. */
  function hasPassedOverOne(): boolean {
    const [oldest] = unanswered.values();
    return (
      oldest !== undefined &&
      oldest.sentAt < latestAnswered &&
      performance.now() - oldest.sentAt >= PASSED_OVER * slowMs
    );
  }

  const watch = setInterval(checkForStall, Math.min(stallMs / 4, 5_000)).unref();
  widenReceiveWindow(sftp, socket);
  ssh.on('error', (error) => lose(connectionError(error)));
  ssh.on('close', () => lose(new Error('the server closed the connection')));
  sftp.on('error', lose);
  sftp.on('close', () => lose(new Error('the server ended the SFTP session')));

  /**
   * Sends the requests of one turn of the event loop together. For small files, system calls are
   * most of the work.
   */
  function sendTogether(): void {
    if (socket.writableCorked > 0) return;
    socket.cork();
    setImmediate(() => socket.uncork());
  }

  // ssh2 never answers a request that was sent after the end of a connection. So `lose` fails all
  // unanswered requests.
  function track<Result>(
    start: (done: Callback<Result>) => void,
    { stalls = 1, content }: RequestOptions,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (lost) return reject(lost);
      if (unanswered.size === 0) {
        lastByteAt = performance.now();
        slowness.restart();
      }
      const sentAt = performance.now();
      unanswered.set(reject, { limit: stalls, sentAt });
      sendTogether();
      const done: Callback<Result> = (error, result) => {
        unanswered.delete(reject);
        latestAnswered = Math.max(latestAnswered, sentAt);
        if (content === undefined) slowness.restart();
        else acknowledged += content;
        answeredAt = performance.now();
        roundTripMs = Math.min(roundTripMs, answeredAt - sentAt);
        if (error) reject(lost ?? error);
        else resolve(result);
      };
      try {
        start(done);
      } catch (error) {
        done(error as Error, undefined as never);
      }
    });
  }

  return {
    get usable() {
      return lost === null;
    },
    get roundTripMs() {
      return roundTripMs;
    },
    get answeredAt() {
      return answeredAt;
    },
    packet: { read: sftp._maxReadLen, write: sftp._maxWriteLen },
    extensions: new Set(Object.keys(sftp._extensions)),
    inOrder: ssh._remoteVer?.startsWith('OpenSSH') ?? false,
    sendsAtOnce: (bytes) => (sftp.outgoing?.window ?? 0) > bytes,
    request: (send, options = {}) => track((done) => send(sftp, done), options),
    onLost: (listener) => listeners.push(listener),
    close: () => lose(new Error('the connection was closed')),
  };
}
