import { once } from 'node:events';
import type { Socket } from 'node:net';

/** Resolves with the socket once it is connected; destroys it on failure. */
export async function connected<S extends Socket>(
  socket: S,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<S> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    await once(socket, 'connect', {
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    return socket;
  } catch (error) {
    socket.on('error', () => {}).destroy();
    if (timeout.aborted)
      throw Object.assign(new Error(`no connection within ${timeoutMs / 1000} s`), {
        code: 'ETIMEDOUT',
      });
    throw error;
  }
}
