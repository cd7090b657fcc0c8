import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { newId } from '../domain/ids.ts';
import { networkOf } from './client-address.ts';
import { PROBLEM_TYPE, type ProblemCode, problem } from './problems.ts';
import { type RateLimiter, rateHeaders } from './rate-limit.ts';

const DETAILS: Record<string, [ProblemCode, string]> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The headers may have at most 16 KiB in all'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time'],
};

/** Answers what is no HTTP request at all; its sender counts as an address without a key. */
export async function answerClientError(rateLimiter: RateLimiter, error: Error & { code?: string }, socket: Socket): Promise<void> {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const [code, detail] = DETAILS[error.code ?? ''] ?? ['malformed_request', 'This is not an HTTP request that can be read'];
  const answer = problem(code, detail, newId('req'));
  const body = JSON.stringify(answer);
  const admission = await rateLimiter.admit(null, networkOf(socket.remoteAddress)).catch(() => null);
  const headers: Record<string, string | number> = {
    'content-type': PROBLEM_TYPE,
    'content-length': Buffer.byteLength(body),
    connection: 'close',
    'x-request-id': answer.request_id,
    ...(admission && rateHeaders(admission.window)),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  if (socket.writable) socket.end(`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}\r\n${lines.join('')}\r\n${body}`);
}
