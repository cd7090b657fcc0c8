import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { abortError } from '../abort.ts';
import { FileError } from '../port.ts';
import { createTurnstile } from '../turnstile.ts';
import { openRangeConnection, type RangeConnection } from './range-connection.ts';
import type { HttpTimeouts } from './timeouts.ts';

/** A signed request as the SDK hands it over. */
export interface SdkRequest {
  method: string;
  hostname: string;
  port?: number;
  path: string;
  query?: Record<string, string | string[] | null>;
  headers: Record<string, string>;
  body?: unknown;
}

export interface SdkResponse {
  response: { statusCode: number; headers: Record<string, string>; body: Readable };
}

/** Where the content of an answer should go. */
export interface Target {
  /** Has room for all of it. */
  bytes: Uint8Array;
  /** How many have gone there already; null where the content is in the body. */
  filled: number | null;
}

export interface SendOptions {
  abortSignal?: AbortSignal;
  target?: Target;
}

/** What the SDK sends its requests by. Errors are Node's own, which the SDK tries again, or FileErrors, which it doesn't. */
export interface Http {
  handle(request: SdkRequest, options?: SendOptions): Promise<SdkResponse>;
  updateHttpClientConfig(): void;
  httpHandlerConfigs(): object;
  /** Connections that stand now, in use or idle. */
  readonly connections: number;
  close(): void;
}

export interface HttpOptions {
  secure: boolean;
  /** The authorities to trust, in PEM; null for those that Node knows. */
  caPem: string | null;
  maxConnections: number;
  timeouts: HttpTimeouts;
}

/** Keeps connections to one server alive, of which there are never more than so many; requests beyond that wait. */
export function createHttp({ secure, caPem, maxConnections, timeouts }: HttpOptions): Http {
  const send = secure ? https.request : http.request;
  // Proxies of the environment are only for agents that are told so.
  const kept = { keepAlive: true, timeout: timeouts.idleMs };
  const agent = secure ? new https.Agent({ ...kept, ...(caPem === null ? {} : { ca: caPem }) }) : new http.Agent(kept);
  const turnstile = createTurnstile(maxConnections);
  const sockets = new Set<Socket>();
  const idleRanges = new Set<RangeConnection>();
  let closed = false;

  const connect = agent.createConnection.bind(agent);
  agent.createConnection = (options, done) => {
    const socket = connect(options, done) as Socket;
    const timer = setTimeout(() => socket.destroy(timedOut()), timeouts.connectMs);
    socket.once(secure ? 'secureConnect' : 'connect', () => clearTimeout(timer));
    socket.once('close', () => clearTimeout(timer));
    return count(socket);

    function timedOut(): FileError {
      return new FileError('timeout', 'connect', `${options.host}:${options.port}: no connection within ${timeouts.connectMs / 1000} s`);
    }
  };

  /** Counts a new connection in, for which an idle one may have to go. */
  function count(socket: Socket): Socket {
    const alive = [...sockets].filter(({ destroyed }) => !destroyed);
    if (alive.length >= maxConnections) idleSocket()?.destroy();
    sockets.add(socket);
    return socket.once('close', () => sockets.delete(socket));
  }

  function idleSocket(): Socket | undefined {
    const range = takeIdleRange();
    return range
      ? range.socket
      : Object.values(agent.freeSockets)
          .flatMap((free) => free ?? [])
          .find(({ destroyed }) => !destroyed);
  }

  function takeIdleRange(): RangeConnection | undefined {
    for (const range of idleRanges) {
      idleRanges.delete(range);
      if (!range.socket.destroyed) return range;
    }
  }

  async function handle(signed: SdkRequest, options: SendOptions = {}): Promise<SdkResponse> {
    // An IPv6 address has its brackets in a URL only.
    const request = { ...signed, hostname: signed.hostname.replace(/^\[|\]$/g, '') };
    const { abortSignal, target } = options;
    if (abortSignal?.aborted) throw abortError(abortSignal, 'transfer');
    const leave = await turnstile.enter(abortSignal);
    if (closed) {
      leave();
      throw new FileError('connection_failed', 'connect', 'The endpoint is closed');
    }
    const path = pathOf(request);
    if (target && !secure) {
      const filled = await fill(request, path, target, abortSignal).finally(leave);
      if (filled) return filled;
      return handle(request, { ...options, target: undefined });
    }
    return ask(request, path, abortSignal, leave);
  }

  function ask(request: SdkRequest, path: string, abortSignal: AbortSignal | undefined, leave: () => void): Promise<SdkResponse> {
    return new Promise((resolve, reject) => {
      const { method, hostname: host, port, headers } = request;
      let incoming: IncomingMessage | null = null;
      const outgoing = send({ agent, method, host, port, path, headers });
      // Told as an option, it would leave a kept connection the time-out of its idling, which the server's Keep-Alive may have cut to seconds.
      outgoing.setTimeout(timeouts.stallMs);
      const fail = (error: Error) => {
        reject(error);
        (incoming ?? outgoing).destroy(error);
      };
      const abort = () => fail(abortError(abortSignal as AbortSignal, 'transfer'));
      abortSignal?.addEventListener('abort', abort, { once: true });
      outgoing.on('error', reject);
      outgoing.on('close', () => {
        abortSignal?.removeEventListener('abort', abort);
        leave();
      });
      outgoing.on('timeout', () =>
        fail(new FileError('stalled', 'transfer', `${host}: no byte went in or out for ${timeouts.stallMs / 1000} s`)),
      );
      outgoing.on('response', (answer) => {
        incoming = answer;
        resolve({ response: { statusCode: answer.statusCode as number, headers: flat(answer.headers), body: answer } });
      });
      write(outgoing, request.body);
    });
  }

  /** The answer to a GET with its content where it should go; null for an answer that is better read in the ordinary way. */
  async function fill(request: SdkRequest, path: string, target: Target, signal: AbortSignal | undefined): Promise<SdkResponse | null> {
    const lines = [`GET ${path} HTTP/1.1`, ...Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`)];
    if (lines.some((line) => /[^\x20-\x7e]/.test(line))) return null;
    const connection = takeIdleRange() ?? openRange(request.hostname, request.port ?? 80);
    const headers = await connection.fetch(`${lines.join('\r\n')}\r\n\r\n`, target.bytes, signal);
    if (headers === null) return null;
    if (!connection.socket.destroyed) idleRanges.add(connection);
    target.filled = Number(headers['content-length']);
    return { response: { statusCode: 206, headers, body: Readable.from([]) } };
  }

  function openRange(host: string, port: number): RangeConnection {
    const connection = openRangeConnection(host, port, timeouts);
    count(connection.socket).once('close', () => idleRanges.delete(connection));
    return connection;
  }

  return {
    handle,
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
    get connections() {
      return [...sockets].filter((socket) => !socket.connecting && !socket.destroyed).length;
    },
    close() {
      closed = true;
      agent.destroy();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function write(outgoing: ClientRequest, body: unknown): void {
  if (body instanceof Readable) pipeline(body, outgoing, () => {});
  else outgoing.end(body as Buffer | string | undefined);
}

/** Nothing of a key is normalized: `.` and `//` are part of its name. */
function pathOf({ path, query = {} }: SdkRequest): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) =>
      one === null ? encodeURIComponent(name) : `${encodeURIComponent(name)}=${encodeURIComponent(one)}`,
    ),
  );
  return pairs.length === 0 ? path : `${path}?${pairs.join('&')}`;
}

function flat(headers: http.IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}
