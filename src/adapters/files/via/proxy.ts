import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { nameOfVia, type Via, type ViaCredentials } from '../../../domain/protocols/via.ts';
import { abortable, abortError } from '../abort.ts';
import { FileError } from '../port.ts';
import { explainError } from '../system-error.ts';
import { answered } from './answered.ts';
import { askForSocks, rejectedSignIn } from './socks5.ts';
import { authorityOf, type ViaTarget } from './target.ts';

export interface ViaOptions {
  via: Via;
  credentials: ViaCredentials;
  target: ViaTarget;
  /** Limit until the connection to the target is open. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/**
 * Connects to a hop and runs `work` on the connection. Throws FileError that names the hop, also if
 * the time is over or the signal aborts; the connection is then closed.
 */
export async function throughHop<Result>(
  { via, target, timeoutMs, signal }: ViaOptions,
  work: (socket: Socket) => Promise<Result>,
): Promise<Result> {
  const limit = AbortSignal.timeout(timeoutMs);
  const stop = signal ? AbortSignal.any([signal, limit]) : limit;
  const socket = connect({
    host: via.host,
    port: via.port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 15_000,
  });
  try {
    await once(socket, 'connect', { signal: stop });
    return await abortable(work(socket), stop, 'connect');
  } catch (error) {
    socket.on('error', () => {}).destroy();
    if (signal?.aborted) throw abortError(signal, 'connect');
    const hop = `The ${nameOfVia(via)}`;
    if (limit.aborted)
      throw new FileError(
        'timeout',
        'connect',
        `${hop}: no connection to ${authorityOf(target)} within ${timeoutMs / 1000} s`,
      );
    if (error instanceof FileError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new FileError(
      code === 'ETIMEDOUT' ? 'timeout' : 'connection_failed',
      'connect',
      `${hop}: ${explainError(error)}`,
      { cause: error },
    );
  }
}

/** Connects to a server through an HTTP or SOCKS5 proxy. Throws FileError. */
export function connectThroughProxy(options: ViaOptions): Promise<Socket> {
  const { via, credentials, target } = options;
  return throughHop(options, async (socket) => {
    if (via.type === 'http') await askForTunnel(socket, options);
    else await askForSocks(socket, via, credentials.password, target);
    return socket;
  });
}

/** Asks for a tunnel by CONNECT (RFC 9110, section 9.3.6). */
async function askForTunnel(
  socket: Socket,
  { via, credentials, target }: ViaOptions,
): Promise<void> {
  const authority = authorityOf(target);
  const user = Buffer.from(`${via.username}:${credentials.password}`).toString('base64');
  const lines = [
    `CONNECT ${authority} HTTP/1.1`,
    `Host: ${authority}`,
    ...(via.username === null ? [] : [`Proxy-Authorization: Basic ${user}`]),
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  const status = await answered(socket, (bytes) => {
    const end = bytes.indexOf('\r\n\r\n');
    return end < 0 ? null : { used: end + 4, value: bytes.toString('latin1').split('\r\n')[0] };
  });
  const [, code = '', words = ''] = /^HTTP\/1\.\d (\d{3}) ?(.*)$/.exec(status ?? '') ?? [];
  if (code.startsWith('2')) return;
  const hop = `The ${nameOfVia(via)}`;
  // Tinyproxy answers 401 to a wrong password.
  if (code === '407' || code === '401') throw rejectedSignIn(via);
  throw new FileError(
    'connection_failed',
    'connect',
    code === ''
      ? `${hop} does not answer as an HTTP proxy`
      : `${hop} did not connect to ${authority}: ${code} ${words}`.trimEnd(),
  );
}
