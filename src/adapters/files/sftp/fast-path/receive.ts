import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { decryptsInPlace, type Protocol } from './inside.ts';

const FIRST_BYTES = 64 << 10;
const GROWN_BYTES = 512 << 10;
/** ssh2 keeps views of small packets, such as a host key's; of larger ones it takes what it needs. */
const COPIED_BELOW = 16 << 10;
const LENGTH_BYTES = 4;
const TAG_BYTES = 16;
/** As ssh2 has it. */
const MAX_PACKET_BYTES = 35_000;

export interface ReceivingSocket {
  socket: Socket;
  /** From here on whole packets are handed on where they can be told apart; before, bytes as they come. */
  handOnPackets(protocol: Protocol): void;
}

/**
 * Connects a socket that reads into one buffer of its own, over and over, and emits `data` as any other does. What it
 * emits is gone after the event. Reads nothing before `resume` is called.
 */
export function connectReceiving(options: TcpNetConnectOpts): ReceivingSocket {
  let buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  let protocol: Protocol | null = null;
  /** Bytes of a packet whose end has not come, at the start of the buffer. */
  let begun = 0;

  function receive(bytes: number): void {
    const end = begun + bytes;
    let start = 0;
    while (start < end && !socket.destroyed) {
      if (!protocol || !decryptsInPlace(protocol)) {
        socket.emit('data', Buffer.from(buffer.subarray(start, end)));
        start = end;
        break;
      }
      if (end - start < LENGTH_BYTES) break;
      const size = packetSize(start) ?? end - start;
      if (start + size > end) break;
      const packet = buffer.subarray(start, start + size);
      start += size;
      socket.emit('data', size < COPIED_BELOW ? Buffer.from(packet) : packet);
    }
    const full = end === buffer.length;
    const rest = buffer.subarray(start, end);
    begun = rest.length;
    if (full && buffer.length < GROWN_BYTES) buffer = Buffer.allocUnsafeSlow(GROWN_BYTES);
    buffer.set(rest, 0);
  }

  /** null where no packet has such a length: ssh2 is left to say so. */
  function packetSize(start: number): number | null {
    const size = LENGTH_BYTES + buffer.readUInt32BE(start) + TAG_BYTES;
    return size > MAX_PACKET_BYTES ? null : size;
  }

  const socket = connect({
    ...options,
    onread: {
      buffer: () => buffer.subarray(begun),
      callback: (bytes) => {
        receive(bytes);
        return true;
      },
    },
  });
  socket.pause();
  return {
    socket,
    handOnPackets: (known) => {
      protocol = known;
    },
  };
}
