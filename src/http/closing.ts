import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Interval of the check for idle connections while the server closes. */
const IDLE_CHECK_MS = 50;

/**
 * Closes connections that become idle while the server closes. `close` alone ends only those that
 * are idle when it starts. Browsers keep spare connections that never send a request. Each would
 * delay the close until its timeout.
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
