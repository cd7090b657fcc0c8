import type { Socket } from 'node:net';

/**
 * Ends a TCP connection whose requests are unanswered, without another byte: what the system has
 * not sent yet is discarded. After an ordinary end, the system would go on to send it for minutes,
 * and the server could carry out a request that Waybill has given up.
 */
export function resetSocket(socket: Socket): void {
  if (!socket.destroyed) socket.resetAndDestroy();
}
