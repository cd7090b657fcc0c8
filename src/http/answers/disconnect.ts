import type { FastifyReply } from 'fastify';

/** Returns a signal that aborts when the client disconnects, or has its whole answer. */
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const left = new AbortController();
  reply.raw.once('close', () => left.abort());
  return left.signal;
}
