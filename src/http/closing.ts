import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** How often a server that closes looks for connections that have become idle. */
const IDLE_CHECK_MS = 50;

/**
 * Closes idle connections for as long as the server closes: closing alone ends those that are idle when it begins. A
 * connection that has never sent a request, as browsers keep one to spare, would otherwise hold it up until it is due.
 */
export function closeIdleConnections(app: FastifyInstance, encrypted: boolean): void {
  const { server } = app;
  const silent = new Set<Socket>();
  server.on(encrypted ? 'secureConnection' : 'connection', (socket: Socket) => {
    silent.add(socket);
    socket.once('close', () => silent.delete(socket));
  });
  server.on('request', ({ socket }) => silent.delete(socket));

  app.addHook('preClose', async () => {
    const timer = setInterval(() => {
      server.closeIdleConnections();
      for (const socket of silent) socket.destroy();
    }, IDLE_CHECK_MS);
    server.once('close', () => clearInterval(timer));
  });
}
