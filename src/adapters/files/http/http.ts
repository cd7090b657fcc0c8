import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { pipeline, Readable, Transform } from 'node:stream';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { abortError } from '../abort.ts';
import { FileError } from '../port.ts';
import { tooSlowText, watchForSlowness } from '../slow-connection.ts';
import { silentText, stalledError } from './connection-error.ts';
import { openRangeConnection, type RangeConnection } from './range-connection.ts';
import type { SentBytes } from './sent-bytes.ts';
import type { HttpTimeouts } from './timeouts.ts';
import type { Tunnel } from './tunnel.ts';

/** A signed request from the SDK. */
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

/** Where the content of an answer is written. */
export interface Target {
  /** Has room for the whole content. */
  bytes: Uint8Array;
  /** Bytes written already; null if the content is in the body of the answer. */
  filled: number | null;
}

export interface SendOptions {
  abortSignal?: AbortSignal;
  target?: Target;
  /** Counts the body, which is bytes or a stream. */
  sent?: SentBytes | undefined;
}

/**
 * The HTTP handler of the SDK. It throws Node's own errors, which the SDK retries, or FileErrors,
 * which it does not.
 */
export interface Http {
  handle(request: SdkRequest, options?: SendOptions): Promise<SdkResponse>;
  updateHttpClientConfig(): void;
  httpHandlerConfigs(): object;
  /** Connections that are open now, in use or idle. */
  readonly connections: number;
  close(): void;
}

export interface HttpOptions {
  secure: boolean;
  /** The trusted authorities in PEM; null for those of Node. */
  caPem: string | null;
  maxConnections: number;
  timeouts: HttpTimeouts;
  /** Connects through a proxy; null to dial the server. Throws FileError. */
  tunnel: Tunnel | null;
}

/** The longest answer that is no part of a file: a list of 5,000 blobs with their metadata. */
const MAX_ANSWER_BYTES = 64 << 20;

/** Keeps connections to one server alive, at most `maxConnections`. Further requests wait. */
export function createHttp(options: HttpOptions): Http {
  const { secure, caPem, maxConnections, timeouts, tunnel } = options;
  const send = secure ? https.request : http.request;
  // An agent uses the proxies of the environment only if its options say so.
  const kept = { keepAlive: true, timeout: timeouts.idleMs };
  const agent = secure
    ? new https.Agent({ ...kept, ...(caPem === null ? {} : { ca: caPem }) })
    : new http.Agent(kept);
  const semaphore = createSemaphore(maxConnections);
  const sockets = new Set<Socket>();
  const idleRanges = new Set<RangeConnection>();
  let closed = false;

  const connect = agent.createConnection.bind(agent);
  agent.createConnection = (options, done) => {
    if (!tunnel) return watched(connect(options, done) as Socket, options);
    tunnel({ host: String(options.host), port: Number(options.port) }).then(
      (socket) => {
        if (closed) socket.destroy();
        if (!secure) return done?.(null, count(socket));
        // `https.Agent` starts TLS on the socket that it gets.
        const started = connect({ ...options, socket } as typeof options) as Socket;
        started.once('close', () => socket.destroy());
        done?.(null, watched(started, options));
      },
      (error: Error) => done?.(error, undefined as never),
    );
    return undefined;
  };

  function watched(socket: Socket, options: { host?: unknown; port?: unknown }): Socket {
    const timer = setTimeout(() => socket.destroy(timedOut()), timeouts.connectMs);
    socket.once(secure ? 'secureConnect' : 'connect', () => clearTimeout(timer));
    socket.once('close', () => clearTimeout(timer));
    return count(socket);

    function timedOut(): FileError {
      return new FileError(
        'timeout',
        'connect',
        `${options.host}:${options.port}: no connection within ${timeouts.connectMs / 1000} s`,
      );
    }
  }

  /** Counts a new connection. At the limit, it closes an idle one. */
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
    // An IPv6 address has brackets in a URL only.
    const request = { ...signed, hostname: signed.hostname.replace(/^\[|\]$/g, '') };
    const { abortSignal, target, sent } = options;
    if (abortSignal?.aborted) throw abortError(abortSignal, 'transfer');
    const release = await semaphore.acquire(abortSignal);
    if (closed) {
      release();
      throw new FileError('connection_failed', 'connect', 'The endpoint is closed');
    }
    const path = pathOf(request);
    if (target && !secure && !tunnel) {
      const filled = await fill(request, path, target, abortSignal).finally(release);
      if (filled) return filled;
      return handle(request, { ...options, target: undefined });
    }
    return ask(request, path, { abortSignal, sent }, release);
  }

  function ask(
    request: SdkRequest,
    path: string,
    { abortSignal, sent }: Pick<SendOptions, 'abortSignal' | 'sent'>,
    release: () => void,
  ): Promise<SdkResponse> {
    return new Promise((resolve, reject) => {
      const { method, hostname: host, port, headers } = request;
      let incoming: IncomingMessage | null = null;
      const outgoing = send({ agent, method, host, port, path, headers });
      // As an option of the request, this time-out would be ignored on a kept connection. That one
      // keeps its idle time-out, which the server's Keep-Alive may have cut to seconds.
      outgoing.setTimeout(timeouts.stallMs);
      const fail = (error: Error) => {
        reject(error);
        (incoming ?? outgoing).destroy(error);
      };
      const abort = () => fail(abortError(abortSignal as AbortSignal, 'transfer'));
      abortSignal?.addEventListener('abort', abort, { once: true });
      outgoing.on('error', reject);
      let endWatch = () => {};
      outgoing.on('socket', (socket) => {
        endWatch = watchForSlowness(
          socket,
          timeouts.slowMs,
          () => stall(tooSlowText(timeouts.slowMs)),
          () => waitsForContent(outgoing),
        );
      });
      outgoing.on('close', () => {
        endWatch();
        abortSignal?.removeEventListener('abort', abort);
        release();
      });
      const stall = (how: string) => fail(stalledError(host, how));
      outgoing.on('timeout', () => stall(silentText(timeouts.stallMs)));
      outgoing.on('response', (answer) => {
        incoming = answer;
        // The server has refused the request, and the buffer of its body may get a new owner.
        if ((answer.statusCode as number) >= 300)
          answer.once('end', () => {
            if (!outgoing.writableFinished) outgoing.destroy();
          });
        resolve({
          response: {
            statusCode: answer.statusCode as number,
            headers: flat(answer.headers),
            body: limited(answer),
          },
        });
      });
      write(outgoing, request.body, sent);
    });
  }

  /**
   * Fetches the answer to a GET straight into `target`. Returns null if the answer must be read in
   * the ordinary way.
   */
  async function fill(
    request: SdkRequest,
    path: string,
    target: Target,
    signal: AbortSignal | undefined,
  ): Promise<SdkResponse | null> {
    const lines = [
      `GET ${path} HTTP/1.1`,
      ...Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`),
    ];
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

/**
 * Returns whether a request waits until the server has taken or sent content. One that has sent its
 * content waits for a confirmation, which may take long: S3 sends spaces until then.
 */
function waitsForContent(outgoing: ClientRequest): boolean {
  return outgoing.writableFinished ? outgoing.method === 'GET' : outgoing.writableLength > 0;
}

function write(outgoing: ClientRequest, body: unknown, sent: SentBytes | undefined): void {
  if (sent) pipeline(sent.count(body as Uint8Array | Readable), outgoing, () => {});
  else if (body instanceof Readable) pipeline(body, outgoing, () => {});
  else outgoing.end(body as Buffer | string | undefined);
}

/**
 * Returns the body of an answer. Anything but a part of a file is read into memory as a whole, so a
 * server must not send it without an end.
 */
function limited(answer: IncomingMessage): Readable {
  const { statusCode, headers } = answer;
  const length = Number(headers['content-length'] ?? Number.POSITIVE_INFINITY);
  if (statusCode === 206 || length <= MAX_ANSWER_BYTES) return answer;
  let left = MAX_ANSWER_BYTES;
  const limit = new Transform({
    transform(chunk: Buffer, _, done) {
      left -= chunk.length;
      if (left >= 0) done(null, chunk);
      else done(new FileError('connection_failed', 'transfer', 'The answer is too long'));
    },
  });
  return pipeline(answer, limit, () => {});
}

/** Returns the path and query. A key is not normalized: `.` and `//` are part of its name. */
function pathOf({ path, query = {} }: SdkRequest): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) =>
      one === null
        ? encodeURIComponent(name)
        : `${encodeURIComponent(name)}=${encodeURIComponent(one)}`,
    ),
  );
  return pairs.length === 0 ? path : `${path}?${pairs.join('&')}`;
}

function flat(headers: http.IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}
