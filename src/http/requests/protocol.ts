import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError } from '../../domain/errors.ts';
import { isPort } from '../../domain/uri.ts';
import { MalformedRequest } from '../problems.ts';
import { type ClientErrorHandler, CONNECT_REFUSED } from './client-error.ts';

const REG_NAME = String.raw`(?:[\w\-.~!$&'()*+,;=]|%[\da-fA-F]{2})*`;
const IP_LITERAL = String.raw`\[[\w:.~!$&'()*+,;=%\-]+\]`;
const HOST = new RegExp(`^(?:${REG_NAME}|${IP_LITERAL})(?::(\\d*))?$`);

/** Answers requests that Node would drop or answer without a problem document. */
export function answerEveryRequest(
  { server }: FastifyInstance,
  rejectClient: ClientErrorHandler,
): void {
  // A client that has closed its side still reads its answer. Without this, Node closes our side
  // too.
  Object.assign(server, { httpAllowHalfOpen: true });
  // An expectation other than 100-continue may be ignored (RFC 9110, 10.1.1).
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) =>
    server.emit('request', request, response),
  );
  server.on('connect', (_request, socket: Socket) =>
    rejectClient(Object.assign(new Error(CONNECT_REFUSED), { code: CONNECT_REFUSED }), socket),
  );
}

/** Rejects a request whose host or length another program may have read in another way. */
export function checkHead(request: FastifyRequest, reply: FastifyReply): void {
  checkHost(request, reply);
  checkTransferCoding(request, reply);
}

/**
 * Rejects a coding other than `chunked`, and closes the connection. Node takes the body of `gzip,
 * chunked` for the decoded one.
 */
function checkTransferCoding({ headers }: FastifyRequest, reply: FastifyReply): void {
  const coding = headers['transfer-encoding'];
  if (coding === undefined || coding.toLowerCase() === 'chunked') return;
  void reply.header('connection', 'close');
  throw new DomainError(
    'unsupported_media_type',
    'Send the request without a Transfer-Encoding, or with chunked alone',
  );
}

/**
 * Rejects a request without exactly one valid Host header (RFC 9112, 3.2), and closes its
 * connection: a proxy in between may have used another host. HTTP/1.0 may omit the header.
 */
function checkHost({ raw }: FastifyRequest, reply: FastifyReply): void {
  const hosts = raw.headersDistinct.host ?? [];
  const [host = ''] = hosts;
  if (hosts.length === 1 && isHost(host)) return;
  if (hosts.length === 0 && raw.httpVersion === '1.0') return;
  void reply.header('connection', 'close');
  if (hosts.length === 0)
    throw new MalformedRequest('The Host header is missing: HTTP/1.1 needs one');
  if (hosts.length > 1) throw new MalformedRequest('The Host header must be given once');
  throw new MalformedRequest(
    'The Host header must be a host name or an address, with or without a port',
  );
}

function isHost(text: string): boolean {
  const match = HOST.exec(text);
  if (match === null) return false;
  const [, port = ''] = match;
  return port === '' || isPort(Number(port));
}

/** Rejects a query whose percent-encoded bytes are no UTF-8: its words would be replaced. */
export function checkQuery({ url }: FastifyRequest): void {
  try {
    for (const [bytes] of url.replace(/^[^?]*/, '').matchAll(/(?:%[0-9a-f]{2})+/gi))
      decodeURIComponent(bytes);
  } catch {
    throw new MalformedRequest('The query must be percent-encoded UTF-8');
  }
}

/** Ignores a Range, as a server may (RFC 9110, 14.2): every answer is sent whole. */
export function ignoreRange({ raw }: FastifyRequest): void {
  delete raw.headers.range;
}

/**
 * Closes the connection after an ignored upgrade: Node drops bytes that follow in the same packet.
 */
export function closeAfterUpgrade({ headers }: FastifyRequest, reply: FastifyReply): void {
  if (headers.upgrade !== undefined) void reply.header('connection', 'close');
}
