import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';

const heldBack = new WeakSet<IncomingMessage>();

/** Returns true if the client waits for `100 Continue`, and has not got it. */
export function isHeldBack(request: IncomingMessage): boolean {
  return heldBack.has(request);
}

/**
 * Sends `100 Continue` when the body is about to be read. Node sends it with the first look at the
 * headers: clients then send bodies that are too large, or that their key may not send.
 */
export function continueLate(app: FastifyInstance): void {
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    heldBack.add(request);
    app.server.emit('request', request, response);
  });
  app.addHook('preParsing', async ({ raw, routeOptions }, reply) => {
    const length = Number(raw.headers['content-length'] ?? 0);
    if (!heldBack.has(raw) || length > (routeOptions.bodyLimit ?? Infinity)) return;
    heldBack.delete(raw);
    reply.raw.writeContinue();
  });
  // The client may send its next request where Node still expects the body.
  app.addHook('onSend', async ({ raw }, reply) => {
    if (heldBack.has(raw)) void reply.header('connection', 'close');
  });
}
