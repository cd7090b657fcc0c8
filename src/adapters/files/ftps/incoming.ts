import type { OnReadOpts } from 'node:net';
import type { TLSSocket } from 'node:tls';

/** The bytes of a data connection, decrypted straight into the buffers of whoever asks for them. */
export interface Incoming {
  /** For the socket's creation. */
  readonly onread: OnReadOpts;
  /** Fills `target`, or what it can of it until the data ends; resolves with the number of bytes. One read at a time. */
  read(socket: TLSSocket, target: Uint8Array): Promise<number>;
}

export function createIncoming(): Incoming {
  // TLS goes on for up to 64 KiB after it was told to stop: what nobody has asked for yet waits here.
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
