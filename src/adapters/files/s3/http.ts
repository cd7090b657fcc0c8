import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { abortError } from '../abort.ts';
import { FileError } from '../port.ts';

export interface S3Timeouts {
  /** Until a connection stands, TLS included. */
  connectMs: number;
  /** Without a byte in either direction while a request is under way. */
  stallMs: number;
  /** How long a connection that nobody uses is kept. */
  idleMs: number;
}

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
  response: { statusCode: number; headers: Record<string, string>; body: IncomingMessage };
}

/** What the SDK sends its requests by. Errors are Node's own, which the SDK tries again, or FileErrors, which it doesn't. */
export interface Http {
  handle(request: SdkRequest, options?: { abortSignal?: AbortSignal }): Promise<SdkResponse>;
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
  timeouts: S3Timeouts;
}

/** Keeps connections to one server alive, of which there are never more than so many; requests beyond that wait. */
export function createHttp({ secure, caPem, maxConnections, timeouts }: HttpOptions): Http {
  const send = secure ? https.request : http.request;
  // Proxies of the environment are only for agents that are told so.
  const kept = { keepAlive: true, maxSockets: maxConnections, maxTotalSockets: maxConnections, timeout: timeouts.idleMs };
  const agent = secure ? new https.Agent({ ...kept, ...(caPem === null ? {} : { ca: caPem }) }) : new http.Agent(kept);
  const sockets = new Set<Socket>();
  let closed = false;

  const connect = agent.createConnection.bind(agent);
  agent.createConnection = (options, done) => {
    const socket = connect(options, done) as Socket;
    const timer = setTimeout(() => socket.destroy(timedOut()), timeouts.connectMs);
    sockets.add(socket);
    socket.once(secure ? 'secureConnect' : 'connect', () => clearTimeout(timer));
    socket.once('close', () => {
      clearTimeout(timer);
      sockets.delete(socket);
    });
    return socket;

    function timedOut(): FileError {
      return new FileError('timeout', 'connect', `${options.host}:${options.port}: no connection within ${timeouts.connectMs / 1000} s`);
    }
  };

  function handle(request: SdkRequest, { abortSignal }: { abortSignal?: AbortSignal } = {}): Promise<SdkResponse> {
    return new Promise((resolve, reject) => {
      if (closed) return reject(new FileError('connection_failed', 'connect', 'The endpoint is closed'));
      if (abortSignal?.aborted) return reject(abortError(abortSignal, 'transfer'));
      const { method, hostname: host, port, headers } = request;
      let incoming: IncomingMessage | null = null;
      const outgoing = send({ agent, method, host, port, path: pathOf(request), headers, timeout: timeouts.stallMs });
      const fail = (error: Error) => {
        reject(error);
        (incoming ?? outgoing).destroy(error);
      };
      const abort = () => fail(abortError(abortSignal as AbortSignal, 'transfer'));
      abortSignal?.addEventListener('abort', abort, { once: true });
      outgoing.on('error', reject);
      outgoing.on('close', () => abortSignal?.removeEventListener('abort', abort));
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

  return {
    handle,
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
    get connections() {
      return [...sockets].filter((socket) => !socket.connecting).length;
    },
    close() {
      closed = true;
      agent.destroy();
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
