import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { CSV_TYPE } from '../contract/csv.ts';

const CSV = ['text/csv', 'text/csv;charset=utf-8'];

/** Returns true if the client prefers CSV to JSON (RFC 9110, section 12.5.1). */
export function prefersCsv(request: FastifyRequest, reply: FastifyReply): boolean {
  void reply.header('vary', 'accept');
  return asksForCsv(request);
}

/** Returns what `prefersCsv` does, before there is an answer. */
export function asksForCsv(request: FastifyRequest): boolean {
  const type = new Negotiator(request.raw).mediaType(['application/json', ...CSV]);
  return type !== undefined && CSV.includes(type);
}

/** Sends all pieces as a file. The connection breaks if one cannot be read. */
export async function sendCsv(
  request: FastifyRequest,
  reply: FastifyReply,
  fileName: string,
  pieces: AsyncGenerator<string, void, void>,
): Promise<never> {
  // Read before the answer begins, so that a store that is away gets its problem document.
  const first = [(await pieces.next()).value, (await pieces.next()).value];
  async function* body() {
    yield first.join('');
    if (request.method !== 'HEAD') yield* pieces;
  }
  return reply
    .type(CSV_TYPE)
    .header('content-disposition', `attachment; filename="${fileName}"`)
    .send(Readable.from(body())) as never;
}
