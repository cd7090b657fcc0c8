import { once } from 'node:events';
import { connect, type OnReadOpts, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { Client, type FTPContext, type FTPResponse } from 'basic-ftp';
import type { FtpsSettings } from '../../../domain/protocols/ftps.ts';
import { abortable, abortError } from '../abort.ts';
import { FileError, type FileStep, type Peer } from '../port.ts';
import { distrust, startTls } from './certificate.ts';
import { fileError, isDataRefusal, isRefusal, SessionExpired, stallError } from './errors.ts';

export interface FtpsCredentials {
  password: string;
}

export interface FtpsTimeouts {
  /** Limits each step of connecting: the TCP connect, the TLS start and the sign-in. */
  connectMs: number;
  /** Maximum time without an answer, or without a byte of a file that is under way. */
  stallMs: number;
  /** How long an unused connection stays open. */
  idleMs: number;
  /** A connection that was unused for longer must answer a NOOP before it is used again. */
  trustMs: number;
  /** How long a caller waits for a connection while all are in use. */
  queueMs: number;
}

export interface Target {
  settings: FtpsSettings;
  credentials: FtpsCredentials;
  timeouts: FtpsTimeouts;
  readonly tls: ConnectionOptions;
}

export interface TransferOptions {
  onread?: OnReadOpts;
  /**
   * May send commands while the data connection opens, which costs no time. With an error, the
   * transfer does not start, and rejects with it.
   */
  objection?: (() => Promise<Error | null>) | undefined;
}

/** A file or listing that is under way on a data connection. */
export interface Transfer {
  socket: TLSSocket;
  /**
   * Resolves with the server's reply at the end. Rejects with the error of the server or the
   * connection; the socket is then destroyed.
   */
  ended: Promise<FTPResponse>;
  /** Rejects if the data connection broke and the server gave no reason within 5 s. */
  broken: Promise<never>;
}

/**
 * One signed-in control connection. Its methods throw the errors of the server, of basic-ftp or of
 * Node.js unchanged; `fileError` converts them.
 */
export interface Connection {
  /** False as soon as it is lost or closed. */
  readonly usable: boolean;
  /** Features from the server's answer to FEAT, such as `MLST` or `REST`. */
  readonly features: ReadonlyMap<string, string>;
  /** Sends a command and awaits its reply. Send one at a time, and none during a transfer. */
  request(command: string): Promise<FTPResponse>;
  /**
   * Opens a data connection and sends the commands. The last one starts the transfer. Rejects if
   * the server refuses a command or rejects the data connection. Any later error is that of
   * `ended`.
   */
  transfer(commands: string[], options?: TransferOptions): Promise<Transfer>;
  /** Maximum silence of the server. Set it on a transfer's socket while you wait for data. */
  readonly stallMs: number;
  /**
   * Returns the promise's outcome. If there is none in time, it cuts the connection and throws. The
   * default time is `stallMs`.
   */
  inTime<Result>(promise: Promise<Result>, milliseconds?: number): Promise<Result>;
  /** Cuts both connections. Everything under way fails with the error. */
  lose(error: Error): void;
  close(): void;
}

/** How long a server may take to give the reason why it closed a data connection. */
const REASON_MS = 5_000;
/** Servers do not expire the TLS session of a connection younger than this. */
const YOUNG_MS = 60_000;

/** Connects, checks the certificate and signs in. Throws FileError. */
export async function openConnection(target: Target): Promise<Connection> {
  const { settings, timeouts } = target;
  const { client, socket } = await greet(target);
  const signIn = async () => {
    const reason = distrust(socket, settings.host);
    if (reason !== null) throw new FileError('tls_error', 'connect', reason);
    return prepare(client, target);
  };
  const features = await beforeTimeout(client, signIn(), 'sign_in', target);
  return connectionOn(client.ftp, features, target.tls, timeouts);
}

/** Returns the server's certificate, without an attempt to sign in. Throws FileError. */
export async function presentedCertificate(target: Target, signal: AbortSignal): Promise<Peer> {
  const { client, socket } = await greet(target, signal);
  const reason = distrust(socket, target.settings.host);
  const { fingerprint256 } = socket.getPeerCertificate();
  client.close();
  return { fingerprint: fingerprint256, trusted: reason === null, reason };
}

/** Resolves with the socket once it is connected; destroys it on failure. */
async function connected<S extends Socket>(
  socket: S,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<S> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    await once(socket, 'connect', {
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    return socket;
  } catch (error) {
    socket.on('error', () => {}).destroy();
    if (timeout.aborted)
      throw Object.assign(new Error(`no connection within ${timeoutMs / 1000} s`), {
        code: 'ETIMEDOUT',
      });
    throw error;
  }
}

/** Connects and starts TLS. It does not verify the certificate: call `distrust` next. */
async function greet(
  target: Target,
  signal?: AbortSignal,
): Promise<{ client: Client; socket: TLSSocket }> {
  const { settings, timeouts, tls } = target;
  const client = new Client(0);
  const dialled = connect({
    host: settings.host,
    port: settings.port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 15_000,
  });
  const plain = await connected(dialled, timeouts.connectMs, signal).catch((error) => {
    throw signal?.aborted
      ? abortError(signal, 'connect')
      : fileError(error, 'connect', `${settings.host}:${settings.port}`);
  });
  const greeting =
    settings.tls === 'implicit'
      ? greetUnderTls(client.ftp, plain, tls)
      : upgradeToTls(client.ftp, plain, tls);
  try {
    const socket = await beforeTimeout(
      client,
      signal ? abortable(greeting, signal, 'connect') : greeting,
      'connect',
      target,
    );
    return { client, socket };
  } catch (error) {
    plain.destroy();
    throw error;
  }
}

async function greetUnderTls(
  ftp: FTPContext,
  plain: Socket,
  tls: ConnectionOptions,
): Promise<TLSSocket> {
  const socket = await startTls(plain, tls);
  ftp.socket = socket;
  await nextReply(ftp);
  return socket;
}

async function upgradeToTls(
  ftp: FTPContext,
  plain: Socket,
  tls: ConnectionOptions,
): Promise<TLSSocket> {
  ftp.socket = plain;
  await nextReply(ftp);
  await ftp.request('AUTH TLS').catch((error) => {
    throw isRefusal(error)
      ? new FileError('tls_error', 'connect', `The server offers no TLS: ${error.message}`)
      : error;
  });
  const socket = await startTls(plain, tls);
  ftp.socket = socket;
  return socket;
}

function nextReply(ftp: FTPContext): Promise<FTPResponse> {
  return ftp.request('');
}

/**
 * Returns the outcome of one step of connecting. On failure, it closes the client and throws
 * FileError.
 */
async function beforeTimeout<Result>(
  client: Client,
  work: Promise<Result>,
  step: FileStep,
  { settings, timeouts }: Target,
): Promise<Result> {
  const { host, port } = settings;
  const { promise: timedOut, reject } = Promise.withResolvers<never>();
  const late = () =>
    reject(
      new FileError(
        'timeout',
        step,
        `${host}:${port}: no answer within ${timeouts.connectMs / 1000} s`,
      ),
    );
  const timer = setTimeout(late, timeouts.connectMs);
  try {
    return await Promise.race([work, timedOut]);
  } catch (error) {
    client.close();
    throw fileError(error, step, `${host}:${port}`);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Signs in and sets the modes for every transfer: UTF-8 names, binary, data connections with TLS.
 */
async function prepare(
  client: Client,
  { settings, credentials }: Target,
): Promise<Map<string, string>> {
  // These characters would end the command, so no server can have such an account.
  if (/[\r\n\0]/.test(settings.username + credentials.password))
    throw new FileError('auth_failed', 'sign_in', 'Authentication failed');
  await client.login(settings.username, credentials.password);
  const features = await client.features();
  await client.sendIgnoringError('OPTS UTF8 ON');
  await client.send('TYPE I');
  await client.sendIgnoringError('PBSZ 0');
  await client.send('PROT P').catch((error) => {
    throw isRefusal(error)
      ? new FileError(
          'tls_error',
          'sign_in',
          `The server offers no TLS for files: ${error.message}`,
        )
      : error;
  });
  return features;
}

function connectionOn(
  ftp: FTPContext,
  features: ReadonlyMap<string, string>,
  tls: ConnectionOptions,
  timeouts: FtpsTimeouts,
): Connection {
  const { connectMs, stallMs } = timeouts;
  const control = ftp.socket as TLSSocket;
  // Node.js resumes a TLS session only under the name with which it began. That is the servername,
  // or the address if the endpoint has no name.
  const host = tls.servername ? control.remoteAddress : tls.host;
  const signedInAt = performance.now();
  let extended = true;
  /** True if the server resumed the session for the last data connection; null before the first. */
  let resumed: boolean | null = null;

  async function inTime<Result>(promise: Promise<Result>, milliseconds = stallMs): Promise<Result> {
    const { promise: stalled, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      const error = stallError(milliseconds);
      reject(error);
      ftp.closeWithError(error);
    }, milliseconds);
    try {
      return await Promise.race([promise, stalled]);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Closes a connection that became useless. After 421 the server hangs up. After it rejected a
   * data connection it would reject the next ones too, because each resumes the same TLS session.
   */
  function loseIfUseless(error: Error & { code?: number }): never {
    if (error.code === 421 || isDataRefusal(error)) lose(error);
    throw error;
  }

  const request = (command: string) => inTime(ftp.request(command)).catch(loseIfUseless);

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
   * Opens a data connection to the address of the control connection. A server behind NAT may name
   * another address, which is ignored.
   */
  async function openData({ onread, objection }: TransferOptions) {
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
    const connecting = connected(connectTls(options), connectMs);
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
    return { socket, objected };
  }

  async function transfer(commands: string[], options: TransferOptions = {}): Promise<Transfer> {
    const { socket, objected } = await openData(options).catch((error) => lose(error));
    const { promise: broken, reject: breakOff } = Promise.withResolvers<never>();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const { promise: secured, resolve: secure } = Promise.withResolvers<void>();
    let failure: Error;
    broken.catch(() => {});
    socket.on('timeout', () => {
      const stalled = stallError(stallMs);
      ftp.closeWithError(stalled);
      // If the server's last reply is already here, closing the control connection fails nothing.
      socket.destroy(stalled);
    });
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
      const ended: Promise<FTPResponse> = reply.catch(loseIfUseless);
      ended.catch(() => socket.destroy());
      await inTime(Promise.race([started, ended, broken]));
      // A reply may overtake the TLS handshake of the data connection. It then ends a transfer that
      // has started: it does not refuse the commands.
      const isSecure = await inTime(
        Promise.race([secured.then(() => true), unlessRejected(ended), broken]),
      );
      if (isSecure && hasExpired(socket)) throw new SessionExpired();
      return { socket, ended, broken };
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

  function lose(error: Error): never {
    ftp.closeWithError(error);
    throw error;
  }

  return {
    get usable() {
      return !ftp.closed;
    },
    features,
    request,
    transfer,
    stallMs,
    inTime,
    lose: (error) => ftp.closeWithError(error),
    close: () => ftp.close(),
  };
}
