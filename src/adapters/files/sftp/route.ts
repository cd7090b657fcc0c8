import { once } from 'node:events';
import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SftpSettings } from '../../../domain/protocols/sftp.ts';
import { type ViaCredentials, viaOf } from '../../../domain/protocols/via.ts';
import { abortError } from '../abort.ts';
import { FileError } from '../port.ts';
import { connectThroughProxy } from '../via/proxy.ts';
import { fileError } from './errors.ts';
import { connectReceiving, type ReceivingSocket } from './fast-path/receive.ts';
import { connectThroughJumpHost } from './jump-host.ts';

/** A connection to an SSH server, directly or through a hop. */
export interface Route {
  /** What SSH runs over: the socket, or a channel of the jump host's connection. */
  stream: Duplex;
  /** The TCP connection of this process. Destroying it ends the route. */
  socket: Socket;
}

/** How to reach the server. */
export interface Routing {
  settings: SftpSettings;
  /** The secrets of the hop. */
  via: ViaCredentials | undefined;
  /** Limit until the connection is open, and again until SFTP is open. */
  timeoutMs: number;
}

interface RouteOptions extends Routing {
  signal?: AbortSignal;
}

/** Connects to the server of an endpoint. Throws FileError. */
export async function openRoute(options: RouteOptions): Promise<Route> {
  const { settings } = options;
  if (viaOf(settings)) return openHop(options);
  const socket = connect(tcpOptions(settings));
  await connected(socket, options);
  return { stream: socket, socket };
}

/** As `openRoute`. `receiving` is null if there is a hop: the fast path needs the server itself. */
export async function openReceivingRoute(
  options: RouteOptions,
): Promise<Route & { receiving: ReceivingSocket | null }> {
  const { settings } = options;
  if (viaOf(settings)) return { ...(await openHop(options)), receiving: null };
  const receiving = connectReceiving(tcpOptions(settings));
  await connected(receiving.socket, options);
  return { stream: receiving.socket, socket: receiving.socket, receiving };
}

async function openHop({ settings, via, timeoutMs, signal }: RouteOptions): Promise<Route> {
  const { host, port } = settings;
  const hop = viaOf(settings);
  if (!hop) throw new Error('The endpoint has no hop');
  const options = { via: hop, credentials: via ?? {}, target: { host, port }, timeoutMs, signal };
  if (hop.type === 'ssh') return connectThroughJumpHost(options);
  const socket = await connectThroughProxy(options);
  return { stream: socket, socket };
}

/** Disables Nagle's algorithm, which would delay every small request by a round trip. */
function tcpOptions({ host, port }: SftpSettings): TcpNetConnectOpts {
  return { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 15_000 };
}

async function connected(
  socket: Socket,
  { settings: { host, port }, timeoutMs, signal }: RouteOptions,
): Promise<void> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    await once(socket, 'connect', {
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (error) {
    socket.on('error', () => {}).destroy();
    if (signal?.aborted) throw abortError(signal, 'connect');
    if (timeout.aborted)
      throw new FileError(
        'timeout',
        'connect',
        `${host}:${port}: no connection within ${timeoutMs / 1000} s`,
      );
    throw fileError(error, 'connect', `${host}:${port}`);
  }
}
