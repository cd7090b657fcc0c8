import { createWakeUp, type WakeUp } from '../../../concurrency/wake-up.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import type { EventBatch } from '../port.ts';

/** Greater than any position: the log may hold events that the cache does not know. */
const UNKNOWN = 2n ** 63n;

/**
 * The end of the log, as one subscription knows it. Events that this process appended need not be
 * read from Postgres.
 */
export interface AppendCache {
  /** Wakes the subscription when there is something to take or to read. */
  wakeUp: WakeUp;
  /** Returns whether the log holds, or may hold, events that are not in the cache. */
  behind(): boolean;
  /**
   * Adds events that this process appended: all events of the log from `first` to `last`. The cache
   * keeps them if it knows all events before them.
   */
  add(first: bigint, last: bigint, events: StoredEvent[]): void;
  /**
   * Reports that the log holds events of these kinds of streams up to a position. Null means any
   * kind and any position.
   */
  announce(kinds: string[] | null, position: bigint | null): void;
  /** Reports that the connection was lost: a failover may have lost the events in the cache. */
  reconnected(): void;
  /** Returns the first events that were added and not taken yet, at most `limit`. */
  take(limit: number): EventBatch;
  /**
   * Reads the events after `from`, up to which everything was delivered. After an error, the cache
   * stays behind.
   */
  read(from: bigint, read: (from: bigint) => Promise<EventBatch>): Promise<EventBatch>;
}

export interface AppendCacheOptions {
  /** Prefixes of the names of the streams to read, without and with the installation's prefix. */
  streams: string[];
  names: string[];
  /** Everything up to here was delivered. */
  from: bigint;
  /** Maximum number of events in the cache. */
  room: number;
}

export function createAppendCache({ streams, names, from, room }: AppendCacheOptions): AppendCache {
  const wakeUp = createWakeUp();
  /** Everything up to here was delivered or is in `events`. */
  let position = from;
  let events: StoredEvent[] = [];
  let announced = UNKNOWN;
  let isDoubtful = false;

  function announceTo(to: bigint): void {
    if (to <= position) return;
    if (to > announced) announced = to;
    wakeUp.wake();
  }

  return {
    wakeUp,
    behind: () => announced > position,
    add(first, last, appended) {
      const own = appended.filter(({ stream }) =>
        streams.some((start) => stream.startsWith(start)),
      );
      if (position === first - 1n && events.length + own.length <= room) {
        position = last;
        events.push(...own);
        if (own.length > 0) wakeUp.wake();
      } else if (own.length > 0) announceTo(last);
    },
    announce(kinds, to) {
      const known =
        kinds === null ||
        names.some((name) => kinds.some((kind) => name.startsWith(kind) || kind.startsWith(name)));
      if (known) announceTo(to ?? UNKNOWN);
    },
    reconnected() {
      isDoubtful = true;
      announced = UNKNOWN;
      wakeUp.wake();
    },
    take(limit) {
      const taken = events.splice(0, limit);
      const last = taken.at(-1);
      return events.length > 0 && last
        ? { events: taken, position: last.position, caughtUp: false }
        : { events: taken, position, caughtUp: true };
    },
    async read(from, read) {
      // An event that is announced from now on may come after those that are read.
      announced = 0n;
      if (isDoubtful) {
        isDoubtful = false;
        position = from;
        events = [];
      }
      try {
        const batch = await read(from);
        // The events added meanwhile follow, unless others lie between.
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
