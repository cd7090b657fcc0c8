import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CSV_TYPE } from '../../contract/csv.ts';
import { asksForCsv } from '../requests/accept.ts';

/** Returns `asksForCsv`, and says in the answer that it depends on `Accept`. */
export function prefersCsv(request: FastifyRequest, reply: FastifyReply): boolean {
  void reply.header('vary', 'accept');
  return asksForCsv(request);
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
