import type { Client, SFTPWrapper } from 'ssh2';
import { internalsOf, nativeCipher } from './internals.ts';
import { framePackets } from './packet.ts';
import { readInPlace } from './read-in-place.ts';
import type { ReceivingSocket } from './receive.ts';
import { writeInPlace } from './write-in-place.ts';

/**
 * Lets a client with an open SFTP session move bytes without the copies that ssh2 makes, which
 * halves its CPU time.
 *
 * Does nothing if ssh2 has another version than the known one. If the server uses ciphers other
 * than AES-GCM, or the native crypto of ssh2 is missing, ssh2 does the parts that depend on them.
 */
export function takeFastPath(
  client: Client,
  sftp: SFTPWrapper,
  { socket, emitPackets }: ReceivingSocket,
): void {
  const internals = internalsOf(client, sftp, socket);
  if (!internals) return;
  emitPackets(internals.protocol);
  readInPlace(internals.sftp);
  writeInPlace(internals);
  const cipher = nativeCipher(internals.protocol);
  if (cipher) framePackets(cipher);
}
