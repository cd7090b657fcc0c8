import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { pipeline, Readable, Transform } from 'node:stream';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { abortError } from '../abort.ts';
import { FileError } from '../port.ts';
import { tooSlowText, watchForSlowness } from '../slow-connection.ts';
import { silentText, stalledError } from './connection-error.ts';
import { type ConnectionOptions, createConnections } from './connections.ts';
import type { SentBytes } from './sent-bytes.ts';

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

/** The longest answer that is no part of a file: a list of 5,000 blobs with their metadata. */
const MAX_ANSWER_BYTES = 64 << 20;
const COPY = /^x-(amz|ms)-copy-source$/i;

/** Keeps connections to one server alive, at most `maxConnections`. Further requests wait. */
export function createHttp(options: ConnectionOptions): Http {
  const { secure, maxConnections, timeouts, tunnel } = options;
  const send = secure ? https.request : http.request;
  const connections = createConnections(options);
  const { agent } = connections;
  const semaphore = createSemaphore(maxConnections);

  async function handle(signed: SdkRequest, options: SendOptions = {}): Promise<SdkResponse> {
    // An IPv6 address has brackets in a URL only.
    const request = { ...signed, hostname: signed.hostname.replace(/^\[|\]$/g, '') };
    const { abortSignal, target, sent } = options;
    if (abortSignal?.aborted) throw abortError(abortSignal, 'transfer');
    const release = await semaphore.acquire(abortSignal);
    if (connections.closed) {
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
        /** Bytes that had come when the whole request was sent. Later ones are of its answer. */
        let readBefore = Number.POSITIVE_INFINITY;
        outgoing.once('finish', () => {
          readBefore = socket.bytesRead;
        });
        const waitsForServer = () => {
          if (!outgoing.writableFinished) return outgoing.writableLength > 0;
          return method === 'GET' || (socket.bytesRead > readBefore && !mayTakeLong(request));
        };
        const endSlowWatch = watchForSlowness(
          socket,
          timeouts.slowMs,
          () => stall(tooSlowText(timeouts.slowMs)),
          waitsForServer,
        );
        // The request itself would report only the first silence of its socket.
        const silent = () => {
          if (incoming || !waitsForSource(outgoing)) stall(silentText(timeouts.stallMs));
        };
        socket.on('timeout', silent);
        endWatch = () => {
          endSlowWatch();
          socket.off('timeout', silent);
        };
      });
      outgoing.on('close', () => {
        endWatch();
        abortSignal?.removeEventListener('abort', abort);
        release();
      });
      const stall = (how: string) => fail(stalledError(host, how));
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
    const connection = connections.takeRange(request.hostname, request.port ?? 80);
    const headers = await connection.fetch(`${lines.join('\r\n')}\r\n\r\n`, target.bytes, signal);
    if (headers === null) return null;
    connections.keepRange(connection);
    target.filled = Number(headers['content-length']);
    return { response: { statusCode: 206, headers, body: Readable.from([]) } };
  }

  return {
    handle,
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
    get connections() {
      return connections.open;
    },
    close: connections.close,
  };
}

/** Returns whether S3 may send spaces for a long time before it confirms a request. */
function mayTakeLong({ method, headers }: SdkRequest): boolean {
  return method === 'POST' || Object.keys(headers).some((name) => COPY.test(name));
}

/** Returns whether a request has sent all content that it has got, and will get more. */
function waitsForSource(outgoing: ClientRequest): boolean {
  return !outgoing.writableEnded && outgoing.writableLength === 0;
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
