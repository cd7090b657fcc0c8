import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type { Client, SFTPWrapper } from 'ssh2';

/** The version whose internals are declared here. With any other version, ssh2 is not changed. */
const KNOWN_VERSION = '1.17.0';

/** The AES-GCM cipher of ssh2's native code; others lack `_instance`. */
export interface Cipher {
  outSeqno: number;
  _dead: boolean;
  _instance?: { encrypt(packet: Buffer): void };
  /** Returns a packet for a payload of this many bytes, with its lengths and its padding. */
  allocPacket(payloadBytes: number): Buffer;
}

/**
 * The part of ssh2's `Protocol` that is used. Each key exchange replaces its cipher and decipher.
 */
export interface Protocol {
  _decipher: { _lenBytes?: number };
  _cipher: Cipher;
  /** Set during a key exchange. No channel data may be sent then. */
  _kexinit: Buffer | undefined;
  _packetRW: { write: object };
  _handlers: { CHANNEL_WINDOW_ADJUST(protocol: Protocol, recipient: number, bytes: number): void };
  /** Sends now, or after the key exchange in progress. */
  channelData(channel: number, data: Buffer): void;
}

export interface Request {
  cb?(error?: Error, buffer?: Buffer, bytes?: number): void;
  /** Where the bytes of a read go. */
  buffer?: Buffer;
}

/** The part of ssh2's `SFTP` that is used. It is a channel too. */
export interface Sftp {
  /**
   * Bytes received of the next message's length; 4 while its body is awaited, 0 between messages.
   */
  _pktLenBytes: number;
  _pktLen: number;
  _pktPos: number;
  _writeReqid: number;
  _maxWriteLen: number;
  _requests: Record<number, Request>;
  incoming: { id: number };
  outgoing: { id: number; window: number; packetSize: number; state: string };
  push(data: Buffer | null): void;
  write(
    handle: Buffer,
    data: Buffer,
    offset: number,
    length: number,
    position: number,
    done: (error?: Error) => void,
  ): void;
}

export interface Internals {
  protocol: Protocol;
  sftp: Sftp;
  socket: Socket;
}

/**
 * Returns the internals of a client with an open SFTP session; null if they are not the known ones.
 */
export function internalsOf(
  client: Client,
  wrapper: SFTPWrapper,
  socket: Socket,
): Internals | null {
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

/** Returns whether ssh2's native code now decrypts whole AES-GCM packets in place. */
export function decryptsInPlace({ _decipher }: Protocol): boolean {
  return _decipher.constructor.name === 'AESGCMDecipherBinding' && _decipher._lenBytes === 0;
}

/** Returns what ssh2's native AES-GCM ciphers inherit; null for other ciphers. */
export function nativeCipher({ _cipher }: Protocol): Pick<Cipher, 'allocPacket'> | null {
  return _cipher.constructor.name === 'AESGCMCipherBinding'
    ? (Object.getPrototypeOf(_cipher) as Cipher)
    : null;
}

/** Returns whether ssh2's native AES-GCM would now encrypt a packet and send it uncompressed. */
export function encryptsInPlace(protocol: Protocol): boolean {
  const { _kexinit, _packetRW } = protocol;
  const uncompressed = _packetRW.write.constructor.name === 'PacketWriter';
  return (
    _kexinit === undefined &&
    uncompressed &&
    nativeCipher(protocol) !== null &&
    !protocol._cipher._dead
  );
}
