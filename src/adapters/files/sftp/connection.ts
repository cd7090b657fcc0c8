import type { Client, ParsedKey } from 'ssh2';
import SftpClient from 'ssh2-sftp-client';
import {
  type AnnouncedHostKey,
  distrust,
  hostKeysOf,
} from '../../../domain/protocols/host-keys.ts';
import type { SftpCredentials, SftpSettings } from '../../../domain/protocols/sftp.ts';
import { abortable } from '../abort.ts';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { FileError, type FileStep } from '../port.ts';
import { describeOffers, sharesNoAlgorithm } from './algorithms.ts';
import { connectionError, fileError, withRefusal } from './errors.ts';
import { takeFastPath } from './fast-path/fast-path.ts';
import { fingerprintOf } from './host-key.ts';
import { objectionTo, watchPacketSize } from './packet-size.ts';
import { openReceivingRoute, openRoute, type Route, type Routing } from './route.ts';
import { type Connection, type Session, watchSession } from './session.ts';
import { answerPrompts, type SignIn, signIn } from './sign-in.ts';

export interface Target {
  settings: SftpSettings;
  credentials: SftpCredentials;
  timeouts: ConnectionTimeouts;
  /** Moves bytes without ssh2 where possible: see `takeFastPath`. */
  fastPath: boolean;
  /** Receives each key that the verified server announces, also the one that it presented. */
  announce(key: AnnouncedHostKey): void;
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
  return watchSession(session, timeouts);
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

/** How far a handshake has come. */
interface Progress {
  step: FileStep;
  /** Why it fails. Null if nothing is wrong so far. */
  failure: unknown;
  /** Fingerprint of the host key that the server presented. Empty before that. */
  verifiedBy: string;
  /** By `performance.now()`. */
  signedInAt: number;
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
  const server = `${host}:${port}`;
  const { timeoutMs } = routing;
  const client = new SftpClient('waybill', {});
  const { client: ssh } = client as unknown as { client: Client };
  const progress = followHandshake(ssh, announce, () => socket.destroy());
  answerPrompts(ssh, config);
  const timer = setTimeout(() => {
    const message = `${server}: no answer within ${timeoutMs / 1000} s`;
    progress.failure ??= new FileError('timeout', progress.step, message);
    socket.destroy();
  }, timeoutMs);
  try {
    const sftp = await client.connect({
      ...config,
      sock: stream,
      username,
      readyTimeout: 0,
      // The result goes through the callback, because ssh2 treats a promise as a yes.
      hostVerifier: (key: Buffer, verify: (trusted: boolean) => void) => {
        progress.verifiedBy = fingerprintOf(key);
        progress.failure = judge(progress.verifiedBy);
        verify(progress.failure === null);
      },
    });
    const openedInMs = performance.now() - progress.signedInAt;
    const { _maxReadLen, _maxWriteLen } = sftp as Session['sftp'];
    const tooFew = objectionTo(Math.min(_maxReadLen, _maxWriteLen));
    if (tooFew) throw tooFew;
    return { ssh, sftp: sftp as Session['sftp'], socket, openedInMs };
  } catch (error) {
    socket.destroy();
    const { step, failure } = progress;
    if (sharesNoAlgorithm(failure)) throw await withoutCommonAlgorithm(routing, failure);
    throw withRefusal(fileError(failure ?? error, step, server), refusal());
  } finally {
    clearTimeout(timer);
  }
}

/** Notes how far the handshake of a client has come. Calls `end` if it must not go on. */
function followHandshake(ssh: Client, announce: Target['announce'], end: () => void): Progress {
  const progress: Progress = { step: 'connect', failure: null, verifiedBy: '', signedInAt: 0 };
  ssh.setMaxListeners(0);
  ssh.on('error', (error) => {
    progress.failure ??= connectionError(error);
  });
  ssh.on('handshake', () => {
    progress.step = 'sign_in';
  });
  ssh.on('ready', () => {
    progress.signedInAt = performance.now();
    watchPacketSize(ssh, (error) => {
      progress.failure ??= error;
      end();
    });
  });
  // ssh2 has verified that the server owns these keys (`hostkeys-prove-00@openssh.com`).
  ssh.on('hostkeys', (keys: ParsedKey[]) => {
    for (const key of keys)
      announce({
        sha256: fingerprintOf(key.getPublicSSH()),
        key_type: key.type,
        verified_by: progress.verifiedBy,
      });
  });
  return progress;
}

/** Returns the error of a server with which Waybill shares no algorithm: it says what each offers. */
async function withoutCommonAlgorithm(routing: Routing, cause: unknown): Promise<FileError> {
  const { host, port, username } = routing.settings;
  const { stream, socket } = await openRoute(routing);
  try {
    const offers = await describeOffers(stream, username, routing.timeoutMs);
    return new FileError('tls_error', 'connect', `${host}:${port}: ${offers}`, { cause });
  } finally {
    // The server may leave its side open.
    socket.destroy();
  }
}
