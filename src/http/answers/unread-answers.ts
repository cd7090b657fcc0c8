import type { FastifyInstance } from 'fastify';

/** A client must take a part of its answer within this time. */
const TAKE_PART_MS = 5 * 60_000;

/**
 * Closes the connection of a client that no longer reads its answer. The answer, and the reads that
 * fill it, would stay for as long as the client does. A handler may take longer: nothing waits for
 * the client then.
 */
export function closeUnreadAnswers(app: FastifyInstance, withinMs = TAKE_PART_MS): void {
  app.addHook('onRequest', async (_request, { raw }) => {
    // Node starts the time again with each part that the client takes.
    raw.setTimeout(withinMs, () => {
      if (raw.writableLength > 0) raw.destroy();
    });
  });
}
