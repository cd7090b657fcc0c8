import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { abortError } from '../abort.ts';
import { FileError, type Peer } from '../port.ts';
import { connectionError } from './connection-error.ts';
import { type Tunnel, targetOf } from './tunnel.ts';

/**
 * Connects to the host of a URL, with TLS for https, and returns its certificate. Sends no request.
 * Throws FileError.
 */
export async function probe(
  url: URL,
  tunnel: Tunnel | null,
  caPem: string | null,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Peer> {
  const secure = url.protocol === 'https:';
  const { host, port } = targetOf(url);
  const tunnelled = await tunnel?.({ host, port }, signal);
  if (tunnelled && !secure) {
    tunnelled.destroy();
    return { fingerprint: null, trusted: true, reason: null };
  }
  const over = tunnelled ? { socket: tunnelled } : {};
  const socket = secure
    ? connectTls({ ...tlsOptions(host, port, caPem), ...over })
    : connect({ host, port });
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    await once(socket, secure ? 'secureConnect' : 'connect', {
      signal: AbortSignal.any([signal, timeout]),
    });
    return secure
      ? peerOf(socket as TLSSocket)
      : { fingerprint: null, trusted: true, reason: null };
  } catch (error) {
    if (signal.aborted) throw abortError(signal, 'connect');
    if (timeout.aborted)
      throw new FileError(
        'timeout',
        'connect',
        `${host}:${port}: no connection within ${timeoutMs / 1000} s`,
      );
    throw connectionError(error, 'connect', `${host}:${port}`);
  } finally {
    socket.on('error', () => {}).destroy();
    tunnelled?.destroy();
  }
}

function tlsOptions(host: string, port: number, caPem: string | null) {
  const servername = /^[\d.]+$|:/.test(host) ? {} : { servername: host };
  // An untrusted certificate is to be shown. Nothing is sent over the connection.
  return {
    host,
    port,
    rejectUnauthorized: false,
    ...servername,
    ...(caPem === null ? {} : { ca: caPem }),
  };
}

function peerOf(socket: TLSSocket): Peer {
  const { fingerprint256 } = socket.getPeerCertificate();
  if (socket.authorized) return { fingerprint: fingerprint256, trusted: true, reason: null };
  // Node types it as an Error, but sets the code string for problems that OpenSSL finds.
  const problem = socket.authorizationError as Error | string;
  const words = problem instanceof Error ? problem.message : problem;
  return {
    fingerprint: fingerprint256,
    trusted: false,
    reason: `The certificate is not trusted: ${words}`,
  };
}
