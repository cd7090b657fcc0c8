import type { Socket } from 'node:net';
import type { Client, ParsedKey, SFTPWrapper } from 'ssh2';
import SftpClient from 'ssh2-sftp-client';
import {
  type AnnouncedHostKey,
  distrust,
  hostKeysOf,
} from '../../../domain/endpoints/host-keys.ts';
import type { EndpointCredentials } from '../../../domain/protocols/index.ts';
import type { SftpSettings } from '../../../domain/protocols/sftp.ts';
import { abortable } from '../abort.ts';
import { FileError, type FileStep } from '../port.ts';
import { describeOffers, sharesNoAlgorithm } from './algorithms.ts';
import { connectionError, fileError, type SshError, withRefusal } from './errors.ts';
import { takeFastPath } from './fast-path/fast-path.ts';
import { fingerprintOf } from './host-key.ts';
import { widenReceiveWindow } from './receive-window.ts';
import { openReceivingRoute, openRoute, type Route, type Routing } from './route.ts';
import { answerPrompts, type SignIn, signIn } from './sign-in.ts';
import type { SftpTimeouts } from './timeouts.ts';

export type SftpCredentials = Extract<
  EndpointCredentials,
  { password: string } | { private_key: string }
>;

export interface Target {
  settings: SftpSettings;
  credentials: SftpCredentials;
  timeouts: SftpTimeouts;
  /** Moves bytes without ssh2 where possible: see `takeFastPath`. */
  fastPath: boolean;
  /** Receives each key that the verified server announces, also the one that it presented. */
  announce(key: AnnouncedHostKey): void;
}

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
  /** Extensions of SFTP that the server offers, such as `fsync@openssh.com`. */
  readonly extensions: ReadonlySet<string>;
  /**
   * Sends a request and waits for its answer. Also fails when the connection is lost or stalls.
   * `stalls` multiplies the limit for a server that says nothing.
   */
  request<Result = void>(
    send: (sftp: SFTPWrapper, done: Callback<Result>) => void,
    stalls?: number,
  ): Promise<Result>;
  onLost(listener: () => void): void;
  close(): void;
}

/** What ssh2 stores of the server's greeting and limits. Its types do not declare it. */
interface Negotiated {
  _extensions: Record<string, string>;
  _maxReadLen: number;
  _maxWriteLen: number;
}

// Channel, subsystem, version, limits. A TCP handshake would only measure the distance to a proxy.
const ROUND_TRIPS_TO_OPEN = 4;

interface Session {
  ssh: Client;
  sftp: SFTPWrapper & Negotiated;
  socket: Socket;
  openedInMs: number;
}

/** Connects, checks the host key, signs in and opens SFTP. Throws FileError. */
export async function openConnection({
  settings,
  credentials,
  timeouts,
  fastPath,
  announce,
}: Target): Promise<Connection> {
  const routing = { settings, via: credentials.via, timeoutMs: timeouts.connectMs };
  const route = await openReceivingRoute(routing);
  const session = await handshake(
    route,
    routing,
    signIn(credentials),
    (fingerprint) => {
      const reason = distrust(fingerprint, hostKeysOf(settings));
      return reason === null ? null : new FileError('host_key_mismatch', 'connect', reason);
    },
    announce,
  );
  if (fastPath && route.receiving) takeFastPath(session.ssh, session.sftp, route.receiving);
  return watchSession(session, timeouts.stallMs);
}

/**
 * Returns the fingerprint of the host key that a server presents, without signing in. Throws
 * FileError.
 */
export async function presentedHostKey(routing: Routing, signal: AbortSignal): Promise<string> {
  const route = await openRoute({ ...routing, signal });
  const seen = new FileError(
    'host_key_mismatch',
    'connect',
    'Stopped after the server presented its host key',
  );
  let presented = '';
  const shake = handshake(route, routing, signIn({}), (fingerprint) => {
    presented = fingerprint;
    return seen;
  });
  try {
    await abortable(shake, signal, 'connect');
  } catch (error) {
    if (error !== seen) throw error;
  } finally {
    route.socket.destroy();
  }
  return presented;
}

/**
 * `judge` returns the error to fail with, or null. No secret is sent before it returns null.
 * `announce` receives the host keys that the server announces after the sign-in.
 */
async function handshake(
  { stream, socket }: Route,
  routing: Routing,
  { config, refusal }: SignIn,
  judge: (fingerprint: string) => FileError | null,
  announce: Target['announce'] = () => {},
): Promise<Session> {
  const { host, port, username } = routing.settings;
  const { timeoutMs } = routing;
  const client = new SftpClient('waybill', {});
  const { client: ssh } = client as unknown as { client: Client };
  let step: FileStep = 'connect';
  let failure: unknown = null;
  let signedInAt = 0;
  let verifiedBy = '';
  const timer = setTimeout(() => {
    failure ??= new FileError(
      'timeout',
      step,
      `${host}:${port}: no answer within ${timeoutMs / 1000} s`,
    );
    socket.destroy();
  }, timeoutMs);
  ssh.setMaxListeners(0);
  ssh.on('error', (error) => {
    failure ??= connectionError(error);
  });
  ssh.on('handshake', () => {
    step = 'sign_in';
  });
  ssh.on('ready', () => {
    signedInAt = performance.now();
  });
  // ssh2 has verified that the server owns these keys (`hostkeys-prove-00@openssh.com`).
  ssh.on('hostkeys', (keys: ParsedKey[]) => {
    for (const key of keys)
      announce({
        sha256: fingerprintOf(key.getPublicSSH()),
        key_type: key.type,
        verified_by: verifiedBy,
      });
  });
  answerPrompts(ssh, config);
  try {
    const sftp = await client.connect({
      ...config,
      sock: stream,
      username,
      readyTimeout: 0,
      // The result goes through the callback, because ssh2 treats a promise as a yes.
      hostVerifier: (key: Buffer, verify: (trusted: boolean) => void) => {
        verifiedBy = fingerprintOf(key);
        failure = judge(verifiedBy);
        verify(failure === null);
      },
    });
    return {
      ssh,
      sftp: sftp as Session['sftp'],
      socket,
      openedInMs: performance.now() - signedInAt,
    };
  } catch (error) {
    socket.destroy();
    if (sharesNoAlgorithm(failure)) {
      const { stream } = await openRoute(routing);
      const offers = await describeOffers(stream, username, timeoutMs);
      throw new FileError('tls_error', 'connect', `${host}:${port}: ${offers}`, { cause: failure });
    }
    throw withRefusal(fileError(failure ?? error, step, `${host}:${port}`), refusal());
  } finally {
    clearTimeout(timer);
  }
}

function watchSession(session: Session, stallMs: number): Connection {
  const { ssh, sftp, socket } = session;
  /** The requests without an answer, each with its limit in stalls. */
  const unanswered = new Map<(error: Error) => void, number>();
  const listeners: (() => void)[] = [];
  let lost: SshError | null = null;
  let lastByteAt = 0;
  let bytesSeen = 0;
  let roundTripMs = session.openedInMs / ROUND_TRIPS_TO_OPEN;

  function lose(error: SshError): void {
    if (lost) return;
    lost = error;
    clearInterval(watch);
    socket.destroy();
    for (const fail of unanswered.keys()) fail(error);
    for (const listener of listeners) listener();
  }

  function checkForStall(): void {
    if (socket.bytesRead !== bytesSeen) lastByteAt = performance.now();
    bytesSeen = socket.bytesRead;
    const limitMs = Math.max(...unanswered.values()) * stallMs;
    if (unanswered.size === 0 || performance.now() - lastByteAt < limitMs) return;
    lose(
      Object.assign(new Error(`the server sent nothing for ${limitMs / 1000} s`), {
        code: 'ESTALLED',
      }),
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
  function track<Result>(start: (done: Callback<Result>) => void, stalls: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (lost) return reject(lost);
      if (unanswered.size === 0) lastByteAt = performance.now();
      unanswered.set(reject, stalls);
      const sentAt = performance.now();
      sendTogether();
      const done: Callback<Result> = (error, result) => {
        unanswered.delete(reject);
        roundTripMs = Math.min(roundTripMs, performance.now() - sentAt);
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
    packet: { read: sftp._maxReadLen, write: sftp._maxWriteLen },
    extensions: new Set(Object.keys(sftp._extensions)),
    request: (send, stalls = 1) => track((done) => send(sftp, done), stalls),
    onLost: (listener) => listeners.push(listener),
    close: () => lose(new Error('the connection was closed')),
  };
}
