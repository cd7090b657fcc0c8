import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { type ProblemCode, problem } from '../../contract/problems.ts';
import { newId } from '../../domain/ids.ts';
import { PROBLEM_TYPE } from '../problems.ts';
import { networkOf } from './client-address.ts';

/** The code of an error that stands for a CONNECT request. */
export const CONNECT_REFUSED = 'CONNECT_REFUSED';

const TOO_LATE = 'ERR_HTTP_REQUEST_TIMEOUT';

const UNCLEAR_LENGTH: [ProblemCode, string] = [
  'malformed_request',
  'The length of the body is not clear: send one Content-Length or Transfer-Encoding: chunked',
];

const DETAILS: Record<string, [ProblemCode, string]> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The headers must not exceed 16 KiB in total'],
  [TOO_LATE]: [
    'request_timeout',
    'The request did not arrive in time: send headers and body at once, over a new connection',
  ],
  HPE_INVALID_CONTENT_LENGTH: UNCLEAR_LENGTH,
  HPE_INVALID_TRANSFER_ENCODING: UNCLEAR_LENGTH,
  HPE_UNEXPECTED_CONTENT_LENGTH: UNCLEAR_LENGTH,
  [CONNECT_REFUSED]: ['malformed_request', 'This server is not a proxy'],
};

/** Bytes after a request with `Connection: close` are not read (RFC 9112, 9.6). */
const AFTER_CLOSE = 'HPE_CLOSED_CONNECTION';

/** Time for the client to close its side. A reset before that could destroy the answer. */
const LINGER_MS = 2_000;

export type ClientErrorHandler = (error: Error & { code?: string }, socket: Socket) => void;

type CountSender = (address: string) => Promise<Record<string, string>>;

interface Connection {
  /** Unsent answers of this connection. */
  pending: Set<ServerResponse>;
  /** The answer to the last request. */
  last: ServerResponse | null;
  failed: boolean;
}

/**
 * Creates the handler that answers bytes that are not HTTP. Whole requests that came before them on
 * the same connection are answered first. `count` counts the sender in the rate window of its
 * address, and returns the rate headers.
 */
export function createClientErrorHandler(count: CountSender): {
  /** Must be called with the answer to each request, before the first `await`. */
  watch(response: ServerResponse): void;
  handle: ClientErrorHandler;
} {
  const connections = new WeakMap<Socket, Connection>();

  function connectionOf(socket: Socket): Connection {
    const known = connections.get(socket);
    if (known) return known;
    const connection: Connection = { pending: new Set(), last: null, failed: false };
    connections.set(socket, connection);
    return connection;
  }

  async function answer(code: string | undefined, socket: Socket): Promise<void> {
    const { pending, last } = connectionOf(socket);
    const broken = last !== null && !last.req.complete ? last : null;
    const whole = [...pending].filter((response) => response !== broken);
    await Promise.all(whole.map((response) => settled(response, socket)));
    if (code === AFTER_CLOSE) return;
    // The broken request may have an answer already: a rejection does not wait for the body.
    if (broken?.headersSent) await settled(broken, socket);
    else await sendProblem(count, code, socket);
    if (socket.writable) socket.end();
    // Unread bytes would turn the close into a reset.
    socket.resume();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  }

  /**
   * Rejects a request that did not arrive in time. Node counts also the time in which this process
   * was busy or frozen, before it has read what came meanwhile.
   */
  async function rejectLate(error: Error & { code?: string }, socket: Socket): Promise<void> {
    const connection = connectionOf(socket);
    const before = lastWhole(connection);
    for (let read = -1; read < socket.bytesRead; await setImmediate()) read = socket.bytesRead;
    const now = lastWhole(connection);
    if (now !== null && now !== before) return;
    // A spare connection of a client, which would take this answer for that of its next request.
    if (socket.bytesRead === 0) socket.destroy();
    else fail(error, socket);
  }

  function fail({ code }: { code?: string }, socket: Socket): void {
    const connection = connectionOf(socket);
    // Every packet after the first error fails too.
    if (connection.failed) return;
    connection.failed = true;
    answer(code, socket).catch(() => socket.destroy());
  }

  return {
    watch(response) {
      const connection = connectionOf(response.req.socket);
      connection.last = response;
      connection.pending.add(response);
      response.once('close', () => connection.pending.delete(response));
    },
    handle(error, socket) {
      if (error.code === 'ECONNRESET') return void socket.destroy();
      if (error.code === TOO_LATE) void rejectLate(error, socket);
      else fail(error, socket);
    },
  };
}

/** Returns the answer to the last request, if that has arrived whole. */
function lastWhole({ last }: Connection): ServerResponse | null {
  return last?.req.complete ? last : null;
}

/** Resolves when a response is sent or the connection is gone. */
function settled(response: ServerResponse, socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (response.writableFinished || socket.destroyed) return resolve();
    const done = () => {
      response.off('close', done);
      socket.off('close', done);
      resolve();
    };
    response.once('close', done);
    socket.once('close', done);
  });
}

async function sendProblem(
  count: CountSender,
  errorCode: string | undefined,
  socket: Socket,
): Promise<void> {
  const [code, detail] = DETAILS[errorCode ?? ''] ?? [
    'malformed_request',
    'The bytes are not a readable HTTP request',
  ];
  const answer = problem(code, detail, newId('req'));
  const body = JSON.stringify(answer);
  const counted = await count(networkOf(socket.remoteAddress)).catch(() => null);
  const headers: Record<string, string | number> = {
    'content-type': PROBLEM_TYPE,
    'content-length': Buffer.byteLength(body),
    connection: 'close',
    // Node adds it to its own answers. RFC 9110, 6.6.1, requires it.
    date: new Date().toUTCString(),
    'x-request-id': answer.request_id,
    ...counted,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  if (socket.writable)
    socket.end(
      `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}\r\n${lines.join('')}\r\n${body}`,
    );
}
