import type { OnReadOpts } from 'node:net';
import type { TLSSocket } from 'node:tls';

/** The bytes of a data connection, decrypted directly into the buffers of the caller. */
export interface Incoming {
  /** Pass it when you create the socket. */
  readonly onread: OnReadOpts;
  /**
   * Fills `target`, or a part of it if the data ends. Resolves with the number of bytes. Allows
   * one read at a time.
   */
  read(socket: TLSSocket, target: Uint8Array): Promise<number>;
}

export function createIncoming(): Incoming {
  // TLS delivers up to 64 KiB more after it is paused. Data without a pending read waits here.
  const spill = Buffer.allocUnsafe(64 << 10);
  const spilled: Buffer[] = [];
  let target: Uint8Array | null = null;
  let filled = 0;
  let straight = false;
  let finish: () => void = () => {};

  function take(piece: Uint8Array): void {
    const room = target ? target.length - filled : 0;
    if (room > 0) target?.set(piece.subarray(0, room), filled);
    filled += Math.min(room, piece.length);
    if (piece.length > room) spilled.push(Buffer.from(piece.subarray(room)));
  }

  return {
    onread: {
      buffer() {
        straight = target !== null;
        return target ? target.subarray(filled) : spill;
      },
      callback(bytes, buffer) {
        if (straight) filled += bytes;
        else take(buffer.subarray(0, bytes));
        if (target === null || filled < target.length) return target !== null;
        finish();
        return false;
      },
    },
    async read(socket, into) {
      target = into;
      filled = 0;
      for (const piece of spilled.splice(0)) take(piece);
      if (filled < into.length && !socket.readableEnded && !socket.destroyed) {
        const { promise, resolve } = Promise.withResolvers<void>();
        finish = () => {
          target = null;
          resolve();
        };
        socket.on('end', finish).on('close', finish).resume();
        await promise;
        socket.off('end', finish).off('close', finish);
      }
      target = null;
      return filled;
    },
  };
}
