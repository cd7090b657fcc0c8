import type { Client, SFTPWrapper } from 'ssh2';
import { insideOf } from './inside.ts';
import { readInPlace } from './read-in-place.ts';
import type { ReceivingSocket } from './receive.ts';
import { writeInPlace } from './write-in-place.ts';

/**
 * Has a client that has opened SFTP move bytes without the copies that ssh2 makes of them, which halves the CPU that
 * it takes. Does nothing where this ssh2 is another one than is known here; where a server takes other ciphers than
 * AES-GCM, or ssh2's native crypto is missing, ssh2 does what depends on them.
 */
export function takeFastPath(client: Client, sftp: SFTPWrapper, { socket, handOnPackets }: ReceivingSocket): void {
  const inside = insideOf(client, sftp, socket);
  if (!inside) return;
  handOnPackets(inside.protocol);
  readInPlace(inside.sftp);
  writeInPlace(inside);
}
