import { once } from 'node:events';
import { connect, type OnReadOpts, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { Client, type FTPContext, type FTPResponse } from 'basic-ftp';
import type { FtpsSettings } from '../../../domain/endpoint.ts';
import { abortable, abortError } from '../abort.ts';
import { FileError, type FileStep, type Peer } from '../port.ts';
import { distrust, startTls } from './certificate.ts';
import { fileError, isRefusal, stallError } from './errors.ts';

export interface FtpsCredentials {
  password: string;
}

export interface FtpsTimeouts {
  /** Until a TCP connection stands, and again until its user is signed in. */
  connectMs: number;
  /** Without an answer, or without a byte of a file that is under way. */
  stallMs: number;
  /** How long a connection that nobody uses is kept. */
  idleMs: number;
  /** After so long without use a connection must answer before it is used again. */
  trustMs: number;
  /** How long a move waits for a connection while all are in use. */
  queueMs: number;
}

export interface Target {
  settings: FtpsSettings;
  credentials: FtpsCredentials;
  timeouts: FtpsTimeouts;
  readonly tls: ConnectionOptions;
}

/** A file or listing on its way over a data connection. */
export interface Transfer {
  socket: TLSSocket;
  /** The server's reply at its end. Fails with what the server, or the connection, has against it; the socket is gone then. */
  ended: Promise<FTPResponse>;
  /** Fails when the data connection broke and the server did not tell why for a while. */
  broken: Promise<never>;
}

/** One signed-in control connection. Errors of its methods are the server's, basic-ftp's or Node's own; `fileError` tells what they mean. */
export interface Connection {
  /** False as soon as it is lost or closed. */
  readonly usable: boolean;
  /** What the server offers by its answer to FEAT, such as `MLST` or `REST`. */
  readonly features: ReadonlyMap<string, string>;
  /** Sends a command and awaits its reply. One at a time, and none while a transfer is under way. */
  request(command: string): Promise<FTPResponse>;
  /** Opens a data connection and starts a transfer on it by the last of the commands. */
  transfer(commands: string[], onread?: OnReadOpts): Promise<Transfer>;
  /** How long nothing may come from the server; for the socket of a transfer, where it is waited for. */
  readonly stallMs: number;
  /** The promise's outcome; loses the connection when there is none in time, which is that of a stall where none is given. */
  inTime<Result>(promise: Promise<Result>, milliseconds?: number): Promise<Result>;
  /** Cuts both connections; what is under way fails with the error. */
  lose(error: Error): void;
  close(): void;
}

/** How long a server may take to tell why it closed a data connection. */
const REASON_MS = 5_000;

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
  return attend(client.ftp, features, target.tls, timeouts);
}

/** Who answers, without any attempt to sign in. Throws FileError. */
export async function presentedCertificate(target: Target, signal: AbortSignal): Promise<Peer> {
  const { client, socket } = await greet(target, signal);
  const reason = distrust(socket, target.settings.host);
  const { fingerprint256 } = socket.getPeerCertificate();
  client.close();
  return { fingerprint: fingerprint256, trusted: reason === null, reason };
}

/** The socket once it is connected. */
async function connected<S extends Socket>(socket: S, timeoutMs: number, signal?: AbortSignal): Promise<S> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    await once(socket, 'connect', { signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    return socket;
  } catch (error) {
    socket.on('error', () => {}).destroy();
    if (timeout.aborted) throw Object.assign(new Error(`no connection within ${timeoutMs / 1000} s`), { code: 'ETIMEDOUT' });
    throw error;
  }
}

/** Connects and starts TLS; the certificate is yet to be judged. */
async function greet(target: Target, signal?: AbortSignal): Promise<{ client: Client; socket: TLSSocket }> {
  const { settings, timeouts, tls } = target;
  const client = new Client(0);
  const dialled = connect({ host: settings.host, port: settings.port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 15_000 });
  const plain = await connected(dialled, timeouts.connectMs, signal).catch((error) => {
    throw signal?.aborted ? abortError(signal, 'connect') : fileError(error, 'connect', `${settings.host}:${settings.port}`);
  });
  const greeting = settings.tls === 'implicit' ? greetUnderTls(client.ftp, plain, tls) : upgradeToTls(client.ftp, plain, tls);
  try {
    const socket = await beforeTimeout(client, signal ? abortable(greeting, signal, 'connect') : greeting, 'connect', target);
    return { client, socket };
  } catch (error) {
    plain.destroy();
    throw error;
  }
}

async function greetUnderTls(ftp: FTPContext, plain: Socket, tls: ConnectionOptions): Promise<TLSSocket> {
  const socket = await startTls(plain, tls);
  ftp.socket = socket;
  await nextReply(ftp);
  return socket;
}

async function upgradeToTls(ftp: FTPContext, plain: Socket, tls: ConnectionOptions): Promise<TLSSocket> {
  ftp.socket = plain;
  await nextReply(ftp);
  await ftp.request('AUTH TLS').catch((error) => {
    throw isRefusal(error) ? new FileError('tls_error', 'connect', `The server offers no TLS: ${error.message}`) : error;
  });
  const socket = await startTls(plain, tls);
  ftp.socket = socket;
  return socket;
}

function nextReply(ftp: FTPContext): Promise<FTPResponse> {
  return ftp.request('');
}

/** The outcome of a step before the connection stands, or FileError; closes the client then. */
async function beforeTimeout<Result>(
  client: Client,
  work: Promise<Result>,
  step: FileStep,
  { settings, timeouts }: Target,
): Promise<Result> {
  const { host, port } = settings;
  const { promise: timedOut, reject } = Promise.withResolvers<never>();
  const late = () => reject(new FileError('timeout', step, `${host}:${port}: no answer within ${timeouts.connectMs / 1000} s`));
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

/** Signs in and sets what every transfer needs: UTF-8 names, binary, data connections under TLS. */
async function prepare(client: Client, { settings, credentials }: Target): Promise<Map<string, string>> {
  // They would end the command; no server can have such an account.
  if (/[\r\n\0]/.test(settings.username + credentials.password)) throw new FileError('auth_failed', 'sign_in', 'Authentication failed');
  await client.login(settings.username, credentials.password);
  const features = await client.features();
  await client.sendIgnoringError('OPTS UTF8 ON');
  await client.send('TYPE I');
  await client.sendIgnoringError('PBSZ 0');
  await client.send('PROT P').catch((error) => {
    throw isRefusal(error) ? new FileError('tls_error', 'sign_in', `The server offers no TLS for files: ${error.message}`) : error;
  });
  return features;
}

function attend(ftp: FTPContext, features: ReadonlyMap<string, string>, tls: ConnectionOptions, timeouts: FtpsTimeouts): Connection {
  const { connectMs, stallMs } = timeouts;
  const control = ftp.socket as TLSSocket;
  // A session is bound to the name under which it was begun: that is the address only where there is no name.
  const host = tls.servername ? control.remoteAddress : tls.host;
  let extended = true;

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

  /** A server that says 421 is about to hang up. */
  function leaveAt421(error: { code?: number }): never {
    if (error.code === 421) ftp.closeWithError(error as unknown as Error);
    throw error;
  }

  const request = (command: string) => inTime(ftp.request(command)).catch(leaveAt421);

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

  /** To the very machine that the control connection leads to, whatever address a server behind NAT names. */
  async function openData(onread: OnReadOpts | undefined): Promise<TLSSocket> {
    const port = await passivePort();
    // A session may be of use only once (TLS 1.3): each data connection brings one for the next.
    const session = ftp.tlsSessionStore ?? control.getSession();
    const options: ConnectionOptions & { onread?: OnReadOpts } = {
      ...tls,
      host,
      port,
      ...(session && { session }),
      ...(onread && { onread }),
    };
    const socket = await connected(connectTls(options), connectMs).catch((error) => {
      error.message = `data connection to port ${port}: ${error.message}`;
      throw error;
    });
    return socket.on('session', (next) => {
      ftp.tlsSessionStore = next;
    });
  }

  async function transfer(commands: string[], onread?: OnReadOpts): Promise<Transfer> {
    const socket = await openData(onread).catch((error) => lose(error));
    const { promise: broken, reject: breakOff } = Promise.withResolvers<never>();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const { promise: secured, resolve: secure } = Promise.withResolvers<void>();
    let failure: Error;
    broken.catch(() => {});
    socket.on('timeout', () => {
      const stalled = stallError(stallMs);
      ftp.closeWithError(stalled);
      // The server may have said its last word long before its last byte arrived.
      socket.destroy(stalled);
    });
    socket.on('secureConnect', secure).on('error', (error) => {
      failure = error;
    });
    // The reason is the server's to tell, on the other connection.
    socket.on('close', (hadError) => hadError && setTimeout(breakOff, REASON_MS, failure).unref());
    try {
      for (const command of commands.slice(0, -1)) await request(command);
      const reply = ftp.handle(commands.at(-1), (answer, task) => {
        if (answer instanceof Error) task.reject(answer);
        else if (answer.code < 200) start();
        else task.resolve(answer);
      });
      const ended: Promise<FTPResponse> = reply.catch(leaveAt421);
      ended.catch(() => socket.destroy());
      await inTime(Promise.race([started, ended, broken]));
      await inTime(Promise.race([secured, ended, broken]));
      return { socket, ended, broken };
    } catch (error) {
      socket.destroy();
      if (isRefusal(error)) throw error;
      return lose(error as Error);
    }
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
