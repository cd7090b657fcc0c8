import { connect, type Socket } from 'node:net';
import { abortError } from '../abort.ts';
import { FileError } from '../port.ts';
import { tooSlowText, watchForSlowness } from '../slow-connection.ts';
import { silentText, stalledError } from './connection-error.ts';
import type { HttpTimeouts } from './timeouts.ts';

/** A keep-alive connection that reads the content of answers straight into the caller's memory. */
export interface RangeConnection {
  readonly socket: Socket;
  /**
   * Sends a GET and reads the content into `target`, which must have room for it. Resolves with the
   * headers. Resolves with null for any answer but a partial content; the connection is then
   * closed. Throws Node's errors and FileErrors.
   */
  fetch(
    head: string,
    target: Uint8Array,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, string> | null>;
}

const MAX_HEAD_BYTES = 16 << 10;

interface Pending {
  target: Uint8Array;
  /** Null until the head was read. */
  headers: Record<string, string> | null;
  filled: number;
  settle(outcome: Record<string, string> | null | Error): void;
}

/**
 * Opens a connection over plain TCP. It takes a fifth of the CPU time of the parser of node:http:
 * the kernel writes into `target`, and only the heads of answers are parsed.
 */
export function openRangeConnection(
  host: string,
  port: number,
  { connectMs, stallMs, slowMs, idleMs }: HttpTimeouts,
): RangeConnection {
  const headBuffer = Buffer.alloc(MAX_HEAD_BYTES);
  let head = Buffer.alloc(0);
  let pending: Pending | null = null;

  const socket = connect({
    host,
    port,
    noDelay: true,
    onread: {
      buffer: () => (pending?.headers ? pending.target.subarray(pending.filled) : headBuffer),
      callback(bytes, buffer) {
        // The server sends bytes without a request.
        if (pending === null) socket.destroy();
        else if (pending.headers === null) readHead(pending, buffer.subarray(0, bytes));
        else advance(pending, bytes);
        return true;
      },
    },
  });
  const timer = setTimeout(() => {
    socket.destroy(
      new FileError(
        'timeout',
        'connect',
        `${host}:${port}: no connection within ${connectMs / 1000} s`,
      ),
    );
  }, connectMs);
  socket.once('connect', () => clearTimeout(timer));
  socket.on('error', (error) => pending?.settle(error));
  socket.on('end', () => socket.destroy());
  socket.on('close', () => {
    clearTimeout(timer);
    pending?.settle(
      Object.assign(new Error('the server closed the connection'), { code: 'ECONNRESET' }),
    );
  });
  socket.on('timeout', () => {
    socket.destroy(pending ? stalledError(host, silentText(stallMs)) : undefined);
  });

  function readHead(asked: Pending, bytes: Uint8Array): void {
    head = Buffer.concat([head, bytes]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0 && head.length < MAX_HEAD_BYTES) return;
    const headers =
      end < 0 ? null : headersOf(head.toString('latin1', 0, end), asked.target.length);
    const content = head.subarray(end + 4);
    head = Buffer.alloc(0);
    if (headers === null) {
      asked.settle(null);
      return;
    }
    asked.headers = headers;
    asked.target = asked.target.subarray(0, Number(headers['content-length']));
    if (content.length > asked.target.length) {
      asked.settle(null);
      return;
    }
    asked.target.set(content);
    advance(asked, content.length);
  }

  function advance(asked: Pending, bytes: number): void {
    asked.filled += bytes;
    if (asked.filled === asked.target.length) asked.settle(asked.headers);
  }

  return {
    socket,
    fetch(request, target, signal) {
      return new Promise((resolve, reject) => {
        const abort = () => pending?.settle(abortError(signal as AbortSignal, 'transfer'));
        const endWatch = watchForSlowness(socket, slowMs, () =>
          pending?.settle(stalledError(host, tooSlowText(slowMs))),
        );
        pending = {
          target,
          headers: null,
          filled: 0,
          settle(outcome) {
            pending = null;
            endWatch();
            signal?.removeEventListener('abort', abort);
            socket.setTimeout(idleMs).unref();
            if (outcome instanceof Error) {
              socket.destroy();
              return reject(outcome);
            }
            if (outcome === null || outcome.connection?.toLowerCase() === 'close') socket.destroy();
            resolve(outcome);
          },
        };
        signal?.addEventListener('abort', abort, { once: true });
        socket.setTimeout(stallMs).ref();
        socket.write(request, 'latin1');
        if (signal?.aborted) abort();
      });
    },
  };
}

/**
 * Returns the headers of a partial content of at most `room` bytes without an encoding; null for
 * every other answer.
 */
function headersOf(head: string, room: number): Record<string, string> | null {
  const [status = '', ...lines] = head.split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const length = headers['content-length'] ?? '';
  const plain =
    headers['transfer-encoding'] === undefined &&
    /^\d{1,15}$/.test(length) &&
    Number(length) <= room;
  return /^HTTP\/1\.1 206(?: |$)/.test(status) && plain ? headers : null;
}
