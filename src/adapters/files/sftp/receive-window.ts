import type { Socket } from 'node:net';
import type { SFTPWrapper } from 'ssh2';

/** ssh2 grants a server a window of 2 MiB, which limits a connection to 2 MiB per round trip. */
const WINDOW_BYTES = 16 << 20;

/** The internals of ssh2 that this module uses, as of 1.17. */
interface Channel {
  incoming: { window: number };
  outgoing: { id: number };
  _protocol: { channelWindowAdjust(id: number, bytes: number): void };
}

/**
 * Keeps the receive window of an SFTP channel open for 16 MiB. Costs no memory: the server sends
 * only what was requested. Does nothing if the internals of ssh2 differ from those declared here.
 */
export function widenReceiveWindow(sftp: SFTPWrapper, socket: Socket): void {
  const { incoming, outgoing, _protocol: protocol } = sftp as unknown as Partial<Channel>;
  if (
    typeof incoming?.window !== 'number' ||
    typeof outgoing?.id !== 'number' ||
    !protocol?.channelWindowAdjust
  )
    return;
  const widen = () => {
    const missing = WINDOW_BYTES - incoming.window;
    if (missing < WINDOW_BYTES / 2) return;
    incoming.window += missing;
    protocol.channelWindowAdjust(outgoing.id, missing);
  };
  widen();
  socket.on('data', widen);
}
