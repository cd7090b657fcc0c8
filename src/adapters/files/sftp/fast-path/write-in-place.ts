import { encryptsInPlace, type Internals } from './internals.ts';
import { frame, HEAD_BYTES, OVERHEAD_BYTES } from './packet.ts';

const WRITE = 6;
const CHANNEL_DATA = 94;
/** Bytes of a payload before its data: type, channel, length of the data. */
const CHANNEL_DATA_BYTES = 9;
/** The longest packet that every server accepts. */
const PACKET_BYTES = 32 << 10;
const ARENA_BYTES = 320 << 10;
const MAX_SPARE = 8;

interface Write {
  handle: Buffer;
  data: Buffer;
  position: number;
  done: (error?: Error) => void;
  /** The message before its data; null until its first byte is sent. */
  head: Buffer | null;
  sent: number;
}

/** Memory for encrypting and sending. All connections of a thread share it. */
const spare: Buffer[] = [];

/**
 * Builds, encrypts and sends the writes in one place. ssh2 copies them three times and makes a
 * system call for every packet. A write that does not fit the channel's window waits without a
 * copy.
 */
export function writeInPlace({ protocol, sftp, socket }: Internals): void {
  const { outgoing } = sftp;
  const handlers = protocol._handlers;
  const adjusted = handlers.CHANNEL_WINDOW_ADJUST;
  const waiting: Write[] = [];

  sftp.write = (handle, buffer, offset, length, position, done) => {
    const data = buffer.subarray(offset, offset + length);
    waiting.push({ handle, data, position, done, head: null, sent: 0 });
    sendAll();
  };

  // A started message must end before ssh2 sends the next one. Until then the window is empty, so
  // ssh2 itself sends nothing.
  handlers.CHANNEL_WINDOW_ADJUST = (from, recipient, bytes) => {
    const started = recipient === sftp.incoming.id && waiting[0]?.head ? waiting[0] : null;
    if (started) {
      outgoing.window += bytes;
      send(started);
    }
    adjusted(from, recipient, started ? 0 : bytes);
    sendAll();
  };

  function sendAll(): void {
    while (waiting[0] && outgoing.window > 0 && outgoing.state === 'open' && socket.writable)
      send(waiting[0]);
  }

  /** Sends as much of a message as the window allows. */
  function send(write: Write): void {
    write.head ??= begin(write);
    const size = write.head.length + write.data.length;
    while (write.sent < size && outgoing.window > 0) {
      if (encryptsInPlace(protocol)) sendEncrypted(write, write.head, size);
      else sendPlain(write, write.head, size);
    }
    if (write.sent === size) waiting.shift();
  }

  function begin({ handle, data, position, done }: Write): Buffer {
    sftp._writeReqid = (sftp._writeReqid + 1) >>> 0;
    sftp._requests[sftp._writeReqid] = { cb: done };
    const head = Buffer.allocUnsafe(25 + handle.length);
    head.writeUInt32BE(head.length - 4 + data.length, 0);
    head[4] = WRITE;
    head.writeUInt32BE(sftp._writeReqid, 5);
    head.writeUInt32BE(handle.length, 9);
    head.set(handle, 13);
    head.writeBigUInt64BE(BigInt(position), 13 + handle.length);
    head.writeUInt32BE(data.length, 21 + handle.length);
    return head;
  }

  /**
   * Copies the next bytes of a message, from its head or its data, and takes them out of the
   * window.
   */
  function take(
    { data, sent }: Write,
    head: Buffer,
    bytes: number,
    target: Buffer,
    at: number,
  ): void {
    const ofHead = Math.min(bytes, Math.max(head.length - sent, 0));
    if (ofHead > 0) target.set(head.subarray(sent, sent + ofHead), at);
    const from = sent + ofHead - head.length;
    target.set(data.subarray(from, from + bytes - ofHead), at + ofHead);
    outgoing.window -= bytes;
  }

  function sendEncrypted(write: Write, head: Buffer, size: number): void {
    const arena = spare.pop() ?? Buffer.allocUnsafeSlow(ARENA_BYTES);
    let end = 0;
    while (write.sent < size && outgoing.window > 0) {
      const bytes = Math.min(size - write.sent, outgoing.window, outgoing.packetSize, PACKET_BYTES);
      if (end + CHANNEL_DATA_BYTES + bytes + OVERHEAD_BYTES > arena.length) break;
      take(write, head, bytes, arena, end + HEAD_BYTES + CHANNEL_DATA_BYTES);
      write.sent += bytes;
      end += encrypt(arena, end, bytes);
    }
    let held = true;
    const release = () => {
      if (held && spare.length < MAX_SPARE) spare.push(arena);
      held = false;
    };
    // A large write goes out before the next one is built. Otherwise each would hold memory of its
    // own.
    if (end > PACKET_BYTES) socket.uncork();
    socket.write(arena.subarray(0, end), release);
    // If the kernel has taken everything, the memory is free now.
    if (socket.writableLength === 0) release();
  }

  /** Turns the data in the arena into an encrypted packet. Returns its size. */
  function encrypt(arena: Buffer, start: number, bytes: number): number {
    const size = frame(arena, start, CHANNEL_DATA_BYTES + bytes);
    const payload = start + HEAD_BYTES;
    arena[payload] = CHANNEL_DATA;
    arena.writeUInt32BE(outgoing.id, payload + 1);
    arena.writeUInt32BE(bytes, payload + 5);
    const { _cipher: cipher } = protocol;
    cipher._instance?.encrypt(arena.subarray(start, start + size));
    cipher.outSeqno = (cipher.outSeqno + 1) >>> 0;
    return size;
  }

  function sendPlain(write: Write, head: Buffer, size: number): void {
    const piece = Buffer.allocUnsafe(
      Math.min(size - write.sent, outgoing.window, outgoing.packetSize),
    );
    take(write, head, piece.length, piece, 0);
    write.sent += piece.length;
    protocol.channelData(outgoing.id, piece);
  }
}
