import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type { Client, SFTPWrapper } from 'ssh2';

/** The version whose inside is described here. With any other one ssh2 is left to itself. */
const KNOWN_VERSION = '1.17.0';

/** What is used of ssh2's `Protocol`. Its cipher and decipher are others after every key exchange. */
export interface Protocol {
  _decipher: { _lenBytes?: number };
  _cipher: { outSeqno: number; _dead: boolean; _instance?: { encrypt(packet: Buffer): void } };
  /** Set while keys are exchanged: nothing of a channel may be sent then. */
  _kexinit: Buffer | undefined;
  _packetRW: { write: object };
  _handlers: { CHANNEL_WINDOW_ADJUST(protocol: Protocol, recipient: number, bytes: number): void };
  /** Sends now, or after the key exchange that goes on. */
  channelData(channel: number, data: Buffer): void;
}

export interface Request {
  cb?(error?: Error, buffer?: Buffer, bytes?: number): void;
  /** Where the bytes of a read go. */
  buffer?: Buffer;
}

/** What is used of ssh2's `SFTP`, which is a channel too. */
export interface Sftp {
  /** Bytes of the next message's length that have come; 4 while its body is awaited, 0 between messages. */
  _pktLenBytes: number;
  _pktLen: number;
  _pktPos: number;
  _writeReqid: number;
  _maxWriteLen: number;
  _requests: Record<number, Request>;
  incoming: { id: number };
  outgoing: { id: number; window: number; packetSize: number; state: string };
  push(data: Buffer | null): void;
  write(handle: Buffer, data: Buffer, offset: number, length: number, position: number, done: (error?: Error) => void): void;
}

export interface Inside {
  protocol: Protocol;
  sftp: Sftp;
  socket: Socket;
}

/** The inside of a client that has opened SFTP; null where it is not what is known. */
export function insideOf(client: Client, wrapper: SFTPWrapper, socket: Socket): Inside | null {
  const { version } = createRequire(import.meta.url)('ssh2/package.json') as { version: string };
  const { _protocol: protocol } = client as unknown as { _protocol?: Partial<Protocol> };
  const sftp = wrapper as unknown as Partial<Sftp>;
  const known =
    version === KNOWN_VERSION &&
    typeof protocol?.channelData === 'function' &&
    typeof protocol._handlers?.CHANNEL_WINDOW_ADJUST === 'function' &&
    typeof protocol._packetRW?.write === 'object' &&
    typeof sftp._requests === 'object' &&
    typeof sftp._writeReqid === 'number' &&
    typeof sftp._maxWriteLen === 'number' &&
    sftp._pktLenBytes === 0 &&
    typeof sftp.outgoing?.window === 'number' &&
    typeof sftp.incoming?.id === 'number';
  return known ? { protocol: protocol as Protocol, sftp: sftp as Sftp, socket } : null;
}

/** Whether what comes is whole AES-GCM packets from here on, decrypted in place by ssh2's native code. */
export function decryptsInPlace({ _decipher }: Protocol): boolean {
  return _decipher.constructor.name === 'AESGCMDecipherBinding' && _decipher._lenBytes === 0;
}

/** Whether ssh2's native AES-GCM would encrypt a packet now and send it as it is. */
export function encryptsInPlace({ _cipher, _kexinit, _packetRW }: Protocol): boolean {
  const uncompressed = _packetRW.write.constructor.name === 'PacketWriter';
  return _kexinit === undefined && uncompressed && _cipher.constructor.name === 'AESGCMCipherBinding' && !_cipher._dead;
}
