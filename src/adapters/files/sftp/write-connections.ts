import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { addTo, type SharedCounter } from '../../../concurrency/shared-counter.ts';
import { closeHandle } from './handles.ts';
import { CHUNK_SIZE, pieces } from './limits.ts';
import { type Lease, type Pool, WHOLE } from './pool.ts';
import type { Connection } from './session.ts';

/** One of several connections that a file is written over, with a file handle of its own. */
interface WriteConnection {
  lease: Lease;
  handle: Buffer;
  unanswered: number;
}

export interface WriteConnections {
  /** Resolves when all bytes are acknowledged. */
  write(offset: number, data: Buffer): Promise<void>;
  /** Sends all bytes of a small new file in this turn of the event loop. */
  writeAtOnce(data: Buffer): Promise<void>;
  /** Closes the handles after the requests sent before. `stalls` multiplies the time it may take. */
  close(stalls: number): Promise<void>;
  release(): void;
  abandon(): void;
}

// A server's window is 2 MiB (OpenSSH). Eight requests of 255 KiB fill it; the others keep it full.
const REQUESTS_PER_CONNECTION = 16;
const MAX_CONNECTIONS = 4;
/** An abort without a reason creates one with its stack, which takes as long as a request. */
const CLOSED = new Error('the file was closed');
const SEVERAL_FROM = { bytes: 8 * CHUNK_SIZE, roundTripMs: 5 };

/**
 * Returns whether a file gains by several connections. With a long round trip, the server's window
 * limits a connection to 2 MiB per round trip.
 */
export function wantsSeveral({ roundTripMs }: Connection, size: number): boolean {
  return size >= SEVERAL_FROM.bytes && roundTripMs >= SEVERAL_FROM.roundTripMs;
}

/**
 * Writes one file over its first connection. With `several`, it uses further connections too, if
 * the pool has some to spare: each opens the file once more.
 */
export function createWriteConnections(
  pool: Pool,
  first: Lease,
  handle: Buffer,
  open: (connection: Connection) => Promise<Buffer>,
  { several, acknowledged }: { several: boolean; acknowledged?: SharedCounter | undefined },
): WriteConnections {
  const connections: WriteConnection[] = [{ lease: first, handle, unanswered: 0 }];
  const requests = createSemaphore(REQUESTS_PER_CONNECTION);
  const noMore = new AbortController();
  let closed = false;
  let released = false;
  const added = Promise.all(
    Array.from({ length: several ? MAX_CONNECTIONS - 1 : 0 }, () =>
      addConnection().catch(() => {}),
    ),
  );

  async function addConnection(): Promise<void> {
    if (!pool.hasRoom) return;
    const lease = await pool.acquire(WHOLE, noMore.signal);
    try {
      connections.push({ lease, handle: await open(lease.connection), unanswered: 0 });
      requests.grow(REQUESTS_PER_CONNECTION);
    } catch (error) {
      lease.release();
      throw error;
    }
    // The file was closed while this connection was being opened.
    if (released) lease.release();
  }

  async function send(offset: number, data: Buffer): Promise<void> {
    // The server may have reused the handle's number for another file since.
    if (closed) throw CLOSED;
    const least = connections.reduce((a, b) => (b.unanswered < a.unanswered ? b : a));
    least.unanswered++;
    await least.lease.connection
      .request((sftp, done) => sftp.write(least.handle, data, 0, data.length, offset, done), {
        content: data.length,
      })
      .finally(() => least.unanswered--);
    addTo(acknowledged, data.length);
  }

  return {
    write: (offset, data) => {
      const packet = Math.min(...connections.map(({ lease }) => lease.connection.packet.write));
      return requests.forEach(pieces(data, packet), ([start, piece]) =>
        send(offset + start, piece),
      );
    },
    async writeAtOnce(data) {
      const sent = pieces(data, first.connection.packet.write);
      await Promise.all(sent.map(([start, piece]) => send(start, piece)));
    },
    async close(stalls) {
      closed = true;
      noMore.abort(CLOSED);
      await added;
      await Promise.all(
        connections.map(({ lease, handle }) => closeHandle(lease.connection, handle, stalls)),
      );
    },
    release() {
      released = true;
      for (const { lease } of connections) lease.release();
    },
    abandon() {
      closed = true;
      noMore.abort(CLOSED);
      for (const { lease } of connections) lease.abandon();
    },
  };
}
