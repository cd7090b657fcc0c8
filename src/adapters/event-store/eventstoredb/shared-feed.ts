import { createWakeUp } from '../../../concurrency/wake-up.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import type { EventBatch, SubscribeOptions } from '../port.ts';
import { BATCH_SIZE, type CountingFeed, type Feed } from './feed.ts';

/*
 * One feed of all streams of the installation, for all subscriptions of a store that have caught
 * up. So the server sends each event once to a process, and the process decodes it once.
 *
 * The feed keeps a window: its latest events, in their order. Each follower looks at them at its
 * own pace, and takes those of its streams. The feed waits for none of them. The first subscription
 * that has caught up opens the window, and the last one to leave closes it.
 *
 * What can go wrong:
 * - A follower is slower than the log: the window has dropped an event that it needs. `next`
 *   returns null, and the subscription reads with a feed of its own until it has caught up.
 * - The feed ends or fails. `next` returns null for every follower. Each meets a failure that lasts
 *   with the feed of its own, and reports it.
 *
 * It relies on positions that only rise, and on a feed that has delivered everything up to the
 * position of a batch.
 */

/**
 * A window of twice this size drops its oldest batches, down to this size. Followers may pause for a
 * second of a busy process.
 */
const KEPT_EVENTS = 4_000;
/** The same in bytes of messages: records of retention and pages of batches are large. */
const KEPT_BYTES = 16 * 2 ** 20;
/** How often a follower reports a position that moved without an event for it. */
const EMPTY_MOVES_MS = 1_000;

type FollowOptions = Pick<SubscribeOptions, 'signal' | 'batchSize'> & { streams: string[] };

/** Creates the shared feed of a store. `open` opens the feed behind it. */
export function createSharedFeed(open: (options: SubscribeOptions) => Promise<CountingFeed>) {
  let window: ReturnType<typeof openWindow> | null = null;
  let subscriptions = 0;

  return {
    /** Counts a subscription. Returns the function that ends it. */
    enter(): () => void {
      subscriptions += 1;
      return () => {
        subscriptions -= 1;
      };
    },
    /**
     * Lets a subscription that has caught up follow the window from its position on. Returns null
     * if it is alone, or if the window does not reach back to its position.
     */
    join(position: bigint, options: FollowOptions): Feed | null {
      if (window?.ended()) window = null;
      if (window === null && subscriptions > 1) window = openWindow(open, position);
      return window?.covers(position, options.streams) ? window.follow(position, options) : null;
    },
  };
}

function openWindow(open: (options: SubscribeOptions) => Promise<CountingFeed>, from: bigint) {
  const stop = new AbortController();
  const followers = new Set<{ notice(batch: EventBatch): void }>();
  const events: StoredEvent[] = [];
  /** Of each batch of the window: how many events it has, and their bytes. */
  const sizes: { length: number; bytes: number }[] = [];
  /** The bytes of all of them. */
  let bytes = 0;
  /** Counts the events that the window has dropped. */
  let dropped = 0;
  /** Positions of the last dropped event of each kind of stream. */
  const droppedUntil = new Map<string, bigint>();
  let position = from;
  let caughtUp = false;

  function add(batch: EventBatch, added: number): void {
    const { length } = batch.events;
    if (length > 0) {
      events.push(...batch.events);
      sizes.push({ length, bytes: added });
      bytes += added;
    }
    ({ position, caughtUp } = batch);
    if (events.length > 2 * KEPT_EVENTS || bytes > 2 * KEPT_BYTES) dropOldest();
    for (const { notice } of followers) notice(batch);
  }

  /** Keeps the newest batch: no follower has seen it. */
  function dropOldest(): void {
    let batches = 0;
    let length = 0;
    for (const size of sizes) {
      const left = events.length - length - size.length;
      if (left < KEPT_EVENTS && bytes - size.bytes < KEPT_BYTES) break;
      batches++;
      length += size.length;
      bytes -= size.bytes;
    }
    sizes.splice(0, batches);
    dropped += length;
    for (const event of events.splice(0, length))
      droppedUntil.set(kindOf(event.stream), event.position);
  }

  /** Returns false if the window lacks an event of these streams after a position. */
  function covers(after: bigint, streams: string[]): boolean {
    if (after < from) return false;
    for (const [kind, last] of droppedUntil)
      if (last > after && streams.some((each) => each.startsWith(kind) || kind.startsWith(each)))
        return false;
    return true;
  }

  async function run(): Promise<void> {
    let feed: CountingFeed | null = null;
    try {
      feed = await open({ from, signal: stop.signal });
      let given = 0;
      for (let batch = await feed.next(); batch !== null; batch = await feed.next()) {
        add(batch, feed.bytes() - given);
        given = feed.bytes();
      }
    } catch {
      // Each follower meets the failure again if it lasts.
    } finally {
      feed?.close();
      stop.abort();
    }
  }
  void run();

  function follow(after: bigint, { streams, signal, batchSize = BATCH_SIZE }: FollowOptions): Feed {
    const wakeUp = createWakeUp();
    const isOurs = ({ stream }: StoredEvent) => streams.some((each) => stream.startsWith(each));
    /** Number of the next event to look at, in the count of all events of the window. */
    let place = 0;
    let seen = after;
    let given: Omit<EventBatch, 'events'> = { position: after, caughtUp: true };
    const follower = {
      notice(batch: EventBatch): void {
        if ((batch.caughtUp && !given.caughtUp) || batch.events.some(isOurs)) wakeUp.wake();
      },
    };
    followers.add(follower);
    for (const each of [signal, stop.signal]) each.addEventListener('abort', wakeUp.wake);

    function take(): EventBatch {
      const taken: StoredEvent[] = [];
      let next = Math.max(place - dropped, 0);
      for (; next < events.length && taken.length < batchSize; next++) {
        const event = events[next] as StoredEvent;
        if (event.position <= seen) continue;
        seen = event.position;
        if (isOurs(event)) taken.push(event);
      }
      place = dropped + next;
      const all = next === events.length;
      if (all && position > seen) seen = position;
      return { events: taken, position: seen, caughtUp: all && caughtUp };
    }

    return {
      async next() {
        for (let waited = false; ; ) {
          if (signal.aborted || stop.signal.aborted) return null;
          if (!covers(seen, streams)) return null;
          const batch = take();
          const moved = batch.position > given.position;
          if (batch.events.length > 0 || (batch.caughtUp && !given.caughtUp) || (waited && moved)) {
            given = batch;
            return batch;
          }
          waited = !(await wakeUp.wait(EMPTY_MOVES_MS));
        }
      },
      close() {
        followers.delete(follower);
        for (const each of [signal, stop.signal]) each.removeEventListener('abort', wakeUp.wake);
        if (followers.size === 0) stop.abort();
      },
    };
  }

  return { covers, follow, ended: () => stop.signal.aborted };
}

/** Returns the beginning of a stream's name that says what it is about: `transfer-`, `log-`. */
function kindOf(stream: string): string {
  return stream.slice(0, stream.indexOf('-') + 1) || stream;
}
