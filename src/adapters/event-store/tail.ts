import { type Bell, createBell } from '../../bell.ts';
import type { StoredEvent } from '../../domain/event.ts';
import type { Batch } from './port.ts';

/** More than any position: something may have been overlooked. */
const UNKNOWN = 2n ** 63n;

/** The end of the log as one subscription knows it: what was appended here need not be read back. */
export interface Tail {
  /** Rung when there is something to take or to read. */
  bell: Bell;
  /** The log holds, or may hold, what was not handed over. */
  behind(): boolean;
  /** Events that were appended next to each other, all that lie between `first` and `last`; the tail takes them where it knows all before them. */
  hand(first: bigint, last: bigint, events: StoredEvent[]): void;
  /** The log holds something of these kinds of streams up to a position; null for whatever and wherever. */
  announce(kinds: string[] | null, position: bigint | null): void;
  /** Gives what was handed over since the last time. */
  take(): Batch;
  /** Reads on behind `from`, all of which was given before. What it throws leaves the tail behind. */
  read(from: bigint, read: (from: bigint) => Promise<Batch>): Promise<Batch>;
}

export interface TailOptions {
  /** Starts of the names of the streams that are read, without and with the installation's prefix. */
  streams: string[];
  names: string[];
  /** Everything up to here was given. */
  from: bigint;
  /** Events that are kept at most. */
  room: number;
}

export function createTail({ streams, names, from, room }: TailOptions): Tail {
  const bell = createBell();
  /** Everything up to here was given or lies in `events`. */
  let position = from;
  let events: StoredEvent[] = [];
  let announced = UNKNOWN;

  function announceTo(to: bigint): void {
    if (to <= position) return;
    if (to > announced) announced = to;
    bell.ring();
  }

  return {
    bell,
    behind: () => announced > position,
    hand(first, last, appended) {
      const own = appended.filter(({ stream }) => streams.some((start) => stream.startsWith(start)));
      if (position === first - 1n && events.length + own.length <= room) {
        position = last;
        events.push(...own);
        if (own.length > 0) bell.ring();
      } else if (own.length > 0) announceTo(last);
    },
    announce(kinds, to) {
      const known = kinds === null || names.some((name) => kinds.some((kind) => name.startsWith(kind) || kind.startsWith(name)));
      if (known) announceTo(to ?? UNKNOWN);
    },
    take: () => ({ events: events.splice(0), position, caughtUp: true }),
    async read(from, read) {
      // What is announced from now on may come after what is read.
      announced = 0n;
      try {
        const batch = await read(from);
        // What was handed over meanwhile follows, unless there is something between.
        events = batch.caughtUp ? events.filter((event) => event.position > batch.position) : [];
        if (!batch.caughtUp) announced = UNKNOWN;
        if (!batch.caughtUp || batch.position > position) position = batch.position;
        return batch;
      } catch (error) {
        announced = UNKNOWN;
        throw error;
      }
    },
  };
}
