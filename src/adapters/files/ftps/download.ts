import { FileError } from '../port.ts';
import type { Connection } from './connection.ts';
import type { DataConnection } from './data-connection.ts';
import { isRefusal } from './errors.ts';
import { createIncoming, type Incoming } from './incoming.ts';

/** A download that is under way. */
export interface Download {
  /** Offset of the next byte. */
  readonly position: number;
  /** Fills all of `target`. Throws FileError `source_changed` if the file ends before. */
  read(target: Uint8Array): Promise<void>;
  /** Checks that the file ends here, and waits until the server confirms that it sent all of it. */
  finish(): Promise<void>;
  /** Stops the download. Resolves when the connection is free for the next command, or lost. */
  cancel(): Promise<void>;
}

const CANCEL_MS = 5_000;

/**
 * Starts a download at an offset. If the server refuses to, it downloads from the start and drops
 * the bytes before the offset.
 */
export async function startDownload(
  connection: Connection,
  path: string,
  offset: number,
): Promise<Download> {
  if (offset === 0) return begin(connection, path, 0);
  try {
    return await begin(connection, path, offset);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const download = await begin(connection, path, 0);
    const dropped = new Uint8Array(1 << 20);
    while (download.position < offset)
      await download.read(dropped.subarray(0, offset - download.position));
    return download;
  }
}

async function begin(connection: Connection, path: string, offset: number): Promise<Download> {
  const incoming = createIncoming();
  const commands = offset > 0 ? [`REST ${offset}`, `RETR ${path}`] : [`RETR ${path}`];
  return download(
    connection,
    await connection.openDataConnection(commands, { onread: incoming.onread }),
    incoming,
    path,
    offset,
  );
}

function download(
  connection: Connection,
  { socket, expectData, ended, broken }: DataConnection,
  incoming: Incoming,
  path: string,
  offset: number,
): Download {
  let position = offset;

  async function take(target: Uint8Array): Promise<number> {
    const received = expectData();
    const bytes = await incoming.read(socket, target);
    received();
    position += bytes;
    return bytes;
  }

  return {
    get position() {
      return position;
    },
    async read(target) {
      if ((await take(target)) === target.length) return;
      // The data may have ended because the connection broke: wait for the server's reply.
      await connection.inTime(Promise.race([ended, broken]));
      if (socket.errored) throw socket.errored;
      throw new FileError('source_changed', 'transfer', `${path} ended after ${position} bytes`);
    },
    async finish() {
      if ((await take(new Uint8Array(1))) > 0)
        throw new FileError('source_changed', 'transfer', `${path} is longer than it was`);
      await connection.inTime(Promise.race([ended, broken]));
    },
    async cancel() {
      socket.destroy();
      await connection.inTime(ended, CANCEL_MS).catch(() => {});
    },
  };
}
