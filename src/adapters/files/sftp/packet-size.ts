import type { Client } from 'ssh2';
import { FileError } from '../port.ts';

/** SSH asks for 32 KiB (RFC 4253, section 6.1). A server that takes less than this is of no use. */
const LEAST_BYTES = 1024;

/** What ssh2 calls for each channel that a server confirms. Its types do not declare it. */
interface Confirming {
  _protocol: {
    _handlers: {
      CHANNEL_OPEN_CONFIRMATION(protocol: unknown, channel: { packetSize: number }): void;
    };
  };
}

/**
 * Calls `refuse` in place of opening a channel whose packets may have hardly a byte. With none, ssh2
 * would never end to cut its first message, and block the thread. Call it after the sign-in.
 */
export function watchPacketSize(ssh: Client, refuse: (error: FileError) => void): void {
  const { _handlers: handlers } = (ssh as unknown as Confirming)._protocol;
  const open = handlers.CHANNEL_OPEN_CONFIRMATION;
  handlers.CHANNEL_OPEN_CONFIRMATION = (protocol, channel) => {
    const error = objectionTo(channel.packetSize);
    if (error) refuse(error);
    else open(protocol, channel);
  };
}

/** Returns the error of a server that takes so few bytes in a message. Null if they are enough. */
export function objectionTo(bytes: number): FileError | null {
  if (bytes >= LEAST_BYTES) return null;
  const message = `The server takes or sends only ${bytes} bytes in a message, so no file can move`;
  return new FileError('connection_failed', 'connect', message);
}
