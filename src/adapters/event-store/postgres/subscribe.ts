/*
 * Subscriptions to the log in Postgres.
 *
 * Each subscription has an append cache (`append-cache.ts`) and is in one of two states.
 *
 * - Up to date: it takes the events of its own process from the cache, without a read.
 * - Behind: it reads from the table. An event of another process, a full cache, a reconnect or a
 *   second without a wake-up put it into this state.
 *
 * What can go wrong:
 *
 * - A notification is lost. The poll after a second finds the events.
 * - Postgres stays unavailable. Subscriptions retry every second.
 */
import type { StoredEvent } from '../../../domain/events/event.ts';
import type { Sql } from '../../postgres/connect.ts';
import { listen } from '../../postgres/listen.ts';
import type { EventBatch, SubscribeOptions } from '../port.ts';
import { type AppendCache, createAppendCache } from './append-cache.ts';
import { createReader } from './read.ts';
import { ignoreUnavailable } from './retry.ts';

const CHANNEL = 'waybill_log';
/** Notifications may be lost with a connection. This poll finds the events that none announced. */
const POLL_MS = 1_000;
/**
 * Maximum number of events that wait in the append cache of a subscription: more than a request for
 * a batch of transfers causes, or a busy process in a second. The caches share the events.
 */
const ROOM = 5_000;

export interface Subscriptions {
  /** As in `EventStore`. */
  subscribe(options: SubscribeOptions): AsyncGenerator<EventBatch>;
  /**
   * Runs an append. Announcements that arrive meanwhile wait until it ends: most of them announce
   * its own events.
   */
  duringAppend<T>(append: () => Promise<T>): Promise<T>;
  /**
   * Adds the events of one call, so the subscriptions of this process need not read them. Makes the
   * events only if there is a subscription.
   */
  add(makeEvents: () => StoredEvent[]): void;
  close(): void;
}

/** Creates the subscriptions of one store. They share one listener and one poll. */
export function createSubscriptions(
  sql: Sql,
  prefix: string,
  keepsUnreadable: boolean,
): Subscriptions {
  /** One cache per subscription. */
  const caches = new Set<AppendCache>();
  /** What was announced during an append. */
  const deferred: Parameters<typeof announce>[] = [];
  let appending = 0;
  let lookedAt = -Infinity;
  let unlisten: (() => void) | null = null;

  async function* subscribe({
    from,
    signal,
    batchSize = 1_000,
    streams = [''],
    only,
  }: SubscribeOptions): AsyncGenerator<EventBatch> {
    const names = streams.map((stream) => prefix + stream);
    let position = from ?? 0n;
    let reportedCaughtUp = false;
    const cache = createAppendCache({ streams, names, from: position, room: ROOM });
    const { wakeUp } = cache;
    caches.add(cache);
    signal.addEventListener('abort', wakeUp.wake);
    const read = createReader(sql, prefix, { limit: batchSize, names, only, keepsUnreadable });
    try {
      unlisten ??= listenForAppends();
      while (!signal.aborted) {
        const batch = cache.behind()
          ? await cache.read(position, read).catch(ignoreUnavailable)
          : cache.take(batchSize);
        if (signal.aborted) return;
        if (batch && (batch.position > position || !reportedCaughtUp)) {
          if (batch.position > position) position = batch.position;
          reportedCaughtUp = batch.caughtUp;
          yield { ...batch, position };
        }
        if (batch?.caughtUp !== false && !(await wakeUp.wait(POLL_MS))) void lookForAppends();
      }
    } finally {
      signal.removeEventListener('abort', wakeUp.wake);
      caches.delete(cache);
    }
  }

  function listenForAppends(): () => void {
    return listen(
      sql,
      CHANNEL,
      (notification) => {
        const kinds = notification.split(' ');
        const position = BigInt(kinds.pop() as string);
        announce(kinds, position);
      },
      () => {
        for (const cache of caches) cache.reconnected();
      },
    );
  }

  /** Finds appends whose notification was lost: one look a second for all subscriptions. */
  async function lookForAppends(): Promise<void> {
    if (performance.now() < lookedAt + POLL_MS) return;
    lookedAt = performance.now();
    const found = await sql<{ position: bigint }[]>`select position from log.head`.catch(() => []);
    // Without an answer, each subscription reads, and meets the error itself.
    announce(null, found[0]?.position ?? null);
  }

  function announce(kinds: string[] | null, position: bigint | null): void {
    if (appending > 0) deferred.push([kinds, position]);
    else for (const cache of caches) cache.announce(kinds, position);
  }

  return {
    subscribe,
    async duringAppend(append) {
      appending++;
      try {
        return await append();
      } finally {
        if (--appending === 0) for (const announced of deferred.splice(0)) announce(...announced);
      }
    },
    add(makeEvents) {
      if (caches.size === 0) return;
      const events = makeEvents();
      const [first] = events;
      const last = events.at(-1);
      // The head of the log was locked, so no other process has events between these.
      if (first && last)
        for (const cache of caches) cache.add(first.position, last.position, events);
    },
    close: () => unlisten?.(),
  };
}
