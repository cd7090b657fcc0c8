import type { Connection } from './connection.ts';
import { CHUNK_SIZE, slices } from './limits.ts';
import { type Lease, type Pool, WHOLE } from './pool.ts';
import { createWindow } from './window.ts';

/** One connection of several that a file is written over, with a handle of its own. */
interface Lane {
  lease: Lease;
  handle: Buffer;
  unanswered: number;
}

export interface Lanes {
  /** Resolves when all of it is acknowledged. */
  write(offset: number, data: Buffer): Promise<void>;
  /** Closes the handles, after what was sent before. */
  close(): Promise<void>;
  release(): void;
  abandon(): void;
}

// A server's window is 2 MiB (OpenSSH): eight requests of 255 KiB fill it, the others keep it filled.
const IN_FLIGHT_PER_LANE = 16;
const MAX_LANES = 4;
const WORTH_IT = { bytes: 8 * CHUNK_SIZE, roundTripMs: 5 };

/**
 * Writes one file over its first connection. Where the round trip is long, the server's window caps a connection
 * at 2 MiB a round trip: a big file then takes further ones too, as far as the pool has some to spare.
 */
export function createLanes(
  pool: Pool,
  first: Lease,
  handle: Buffer,
  open: (connection: Connection) => Promise<Buffer>,
  size: number,
): Lanes {
  const lanes: Lane[] = [{ lease: first, handle, unanswered: 0 }];
  const window = createWindow(IN_FLIGHT_PER_LANE);
  const enough = new AbortController();
  let closed = false;
  let released = false;
  const slow = size >= WORTH_IT.bytes && first.connection.roundTripMs >= WORTH_IT.roundTripMs;
  const widened = Promise.all(Array.from({ length: slow ? MAX_LANES - 1 : 0 }, () => widen().catch(() => {})));

  async function widen(): Promise<void> {
    if (!pool.hasRoom) return;
    const lease = await pool.acquire(WHOLE, enough.signal);
    try {
      lanes.push({ lease, handle: await open(lease.connection), unanswered: 0 });
      window.grow(IN_FLIGHT_PER_LANE);
    } catch (error) {
      lease.release();
      throw error;
    }
    // The file was closed while this one was opened.
    if (released) lease.release();
  }

  async function send(offset: number, data: Buffer): Promise<void> {
    // The server may have given the handle's number to another file since.
    if (closed) throw new Error('the file was closed');
    const lane = lanes.reduce((a, b) => (b.unanswered < a.unanswered ? b : a));
    lane.unanswered++;
    await lane.lease.connection
      .request((sftp, done) => sftp.write(lane.handle, data, 0, data.length, offset, done))
      .finally(() => lane.unanswered--);
  }

  return {
    write: (offset, data) => {
      const packet = Math.min(...lanes.map(({ lease }) => lease.connection.packet.write));
      return window.all(slices(data.length, packet), ([start, end]) => send(offset + start, data.subarray(start, end)));
    },
    async close() {
      closed = true;
      enough.abort();
      await widened;
      await Promise.all(lanes.map((lane) => lane.lease.connection.request((sftp, done) => sftp.close(lane.handle, done))));
    },
    release() {
      released = true;
      for (const { lease } of lanes) lease.release();
    },
    abandon() {
      closed = true;
      enough.abort();
      for (const { lease } of lanes) lease.abandon();
    },
  };
}
