import { connect, type Socket } from 'node:net';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { Client, type FTPContext, type FTPResponse } from 'basic-ftp';
import type { FtpsCredentials, FtpsSettings } from '../../../domain/protocols/ftps.ts';
import { AUTHENTICATION_FAILED } from '../../../domain/transfers/errors.ts';
import { abortable, abortError } from '../abort.ts';
import type { ConnectionTimeouts } from '../connection-timeouts.ts';
import { FileError, type FileStep, type Peer } from '../port.ts';
import { distrust, startTls } from './certificate.ts';
import { connected } from './connected.ts';
import { type Connection, connectionOn } from './connection.ts';
import { fileError, isRefusal } from './errors.ts';

export interface Target {
  settings: FtpsSettings;
  credentials: FtpsCredentials;
  timeouts: ConnectionTimeouts;
  readonly tls: ConnectionOptions;
}

/** Connects, checks the certificate and signs in. Throws FileError. */
export async function openConnection(target: Target): Promise<Connection> {
  const { settings, timeouts } = target;
  const { client, socket, plain } = await greet(target);
  const signIn = async () => {
    const reason = distrust(socket, settings.host);
    if (reason !== null) throw new FileError('tls_error', 'connect', reason);
    return prepare(client, target);
  };
  const features = await beforeTimeout(client, signIn(), 'sign_in', target);
  const isSilent = () => isUnreachable(target);
  return connectionOn(client.ftp, plain, features, target.tls, timeouts, isSilent);
}

/** Returns whether a new connection gets no answer. A refused one has an answer. */
async function isUnreachable(target: Target): Promise<boolean> {
  try {
    const { client } = await greet(target);
    client.close();
    return false;
  } catch (error) {
    return (error as FileError).code === 'timeout';
  }
}

/** Returns the server's certificate, without an attempt to sign in. Throws FileError. */
export async function presentedCertificate(target: Target, signal: AbortSignal): Promise<Peer> {
  const { client, socket } = await greet(target, signal);
  const reason = distrust(socket, target.settings.host);
  const { fingerprint256 } = socket.getPeerCertificate();
  client.close();
  return { fingerprint: fingerprint256, trusted: reason === null, reason };
}

/** Connects and starts TLS. It does not verify the certificate: call `distrust` next. */
async function greet(
  target: Target,
  signal?: AbortSignal,
): Promise<{ client: Client; socket: TLSSocket; plain: Socket }> {
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
    return { client, socket, plain };
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
    throw new FileError('auth_failed', 'sign_in', AUTHENTICATION_FAILED);
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
