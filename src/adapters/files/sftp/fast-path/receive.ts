import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import { decryptsInPlace, type Protocol } from './internals.ts';

const FIRST_BYTES = 64 << 10;
const GROWN_BYTES = 512 << 10;
/**
 * ssh2 keeps views of small packets, such as one with a host key. It copies what it needs from
 * larger ones.
 */
const COPIED_BELOW = 16 << 10;
const LENGTH_BYTES = 4;
const TAG_BYTES = 16;
/** The limit of ssh2. */
const MAX_PACKET_BYTES = 35_000;

export interface ReceivingSocket {
  socket: Socket;
  /** From this call on, emits whole packets if it can find their ends. Before, emits raw bytes. */
  emitPackets(protocol: Protocol): void;
}

/**
 * Connects a socket that always reads into the same buffer and emits `data` as any socket does. The
 * emitted bytes are valid during the event only. Reads nothing before `resume` is called.
 */
export function connectReceiving(options: TcpNetConnectOpts): ReceivingSocket {
  let buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  let protocol: Protocol | null = null;
  /** Bytes of an incomplete packet at the start of the buffer. */
  let incomplete = 0;

  function receive(bytes: number): void {
    const end = incomplete + bytes;
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
    incomplete = rest.length;
    if (full && buffer.length < GROWN_BYTES) buffer = Buffer.allocUnsafeSlow(GROWN_BYTES);
    buffer.set(rest, 0);
  }

  /** Returns null if no packet has such a length. ssh2 reports that error. */
  function packetSize(start: number): number | null {
    const size = LENGTH_BYTES + buffer.readUInt32BE(start) + TAG_BYTES;
    return size > MAX_PACKET_BYTES ? null : size;
  }

  const socket = connect({
    ...options,
    onread: {
      buffer: () => buffer.subarray(incomplete),
      callback: (bytes) => {
        receive(bytes);
        return true;
      },
    },
  });
  socket.pause();
  return {
    socket,
    emitPackets: (known) => {
      protocol = known;
    },
  };
}
