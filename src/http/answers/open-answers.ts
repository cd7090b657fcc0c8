import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError } from '../../domain/errors.ts';
import { clientOf } from '../auth/client.ts';

const RETRY_SECONDS = 60;

/**
 * Counts an answer until its connection closes. Throws `rate_limited` if its key or person has too
 * many open ones.
 */
export type LimitOpen = (request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Limits the open answers of one kind, for each key or person in this process. The rate limit
 * counts the start of an answer, and these last: without this limit, one client could open all that
 * a process can hold. `kind` names them in the message.
 */
export function limitOpenAnswers(kind: string, most: number): LimitOpen {
  const openOf = new Map<string, number>();
  return (request, reply) => {
    const { actor } = clientOf(request);
    const open = openOf.get(actor) ?? 0;
    if (open >= most) {
      void reply.header('retry-after', String(RETRY_SECONDS));
      throw new DomainError(
        'rate_limited',
        `${open} ${kind} are open, and no more are allowed: close those that you do not read`,
      );
    }
    if (reply.raw.destroyed) return;
    openOf.set(actor, open + 1);
    reply.raw.once('close', () => {
      const others = (openOf.get(actor) ?? 1) - 1;
      if (others > 0) openOf.set(actor, others);
      else openOf.delete(actor);
    });
  };
}
