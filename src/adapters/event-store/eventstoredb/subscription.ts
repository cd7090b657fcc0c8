import type { EventStoreDBClient } from '@eventstore/db-client';
import { pause } from '../../../concurrency/pause.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import type { EventBatch, SubscribeOptions } from '../port.ts';
import type { CallLimits } from './calls.ts';
import type { Connection } from './connection.ts';
import { giveUp, isTransient, LogReplaced, StaleNode } from './errors.ts';
import { type CountingFeed, type Feed, openFeed } from './feed.ts';
import { hasEvent, readHead } from './reads.ts';
import { createSharedFeed } from './shared-feed.ts';

/*
 * Follows `$all` from a position on, as an endless sequence of batches.
 *
 * A subscription opens a feed of its own (`feed.ts`) and yields its batches. When it has caught up,
 * it changes to the feed that all subscriptions of the store share (`shared-feed.ts`). When a feed
 * ends, it pauses and opens its own one after the last yielded position. The pause is 100 ms at
 * first, doubles after each feed without a batch, and is at most 5 s. A random factor shortens it,
 * at most by half.
 *
 * What can go wrong:
 * - A connection breaks, or the leader changes. Such a failure is transient: the client for reads
 *   is replaced, and the next feed continues. A subscription throws any other failure.
 * - A node loses the others, and with them its lead. It keeps its subscriptions and sends nothing.
 *   So a feed that is silent for the time of a try asks whether its node still leads. If it does
 *   not, the feed ends.
 * - An older copy of the log was restored. The server accepts a position after its end, and would
 *   skip what is appended up to there. So before a subscription continues, the node must have the
 *   last event that it yielded. A former leader can lack it too: only a log that lacks it for
 *   longer than a node can be wrong is another one. Then the subscription throws LogReplaced.
 */

const RECONNECT_AFTER_MS = { first: 100, most: 5_000 };

interface FollowSettings {
  attemptMs: number;
  /** How long a node can answer as the leader after it has lost its lead. */
  staleMs: number;
  keepsUnreadable: boolean;
}

/** Where a subscription is: a position, and the last event that it yielded. */
interface Place {
  from: bigint | null;
  last: StoredEvent | null;
}

/**
 * Creates the function that subscribes. It yields batches until the signal aborts, with a new feed
 * after each transient failure. It throws any other failure.
 */
export function createSubscriptions(
  connection: Pick<Connection, 'read' | 'subscriptionFailed'>,
  prefix: string,
  { attemptMs, staleMs, keepsUnreadable }: FollowSettings,
) {
  const shared = createSharedFeed(open);

  async function open(options: SubscribeOptions): Promise<CountingFeed> {
    const leaving = new AbortController();
    const signal = AbortSignal.any([options.signal, leaving.signal]);
    const limits = { signal, attemptMs: () => attemptMs };
    const opening = connection.read(limits, async (client) => {
      // A follower that is behind accepts a subscription after its end, and says it is caught up.
      await readHead(client, limits);
      // Given up meanwhile: nothing would close the feed.
      signal.throwIfAborted();
      return { client, ...openFeed(client, prefix, { ...options, signal }, keepsUnreadable) };
    });
    const feed = await opening.catch((error: unknown) => {
      leaving.abort();
      throw error;
    });
    let heard = true;
    const looking = setInterval(() => {
      if (!heard) void stillLeads(feed.client, limits).then((leads) => leads || leaving.abort());
      heard = false;
    }, attemptMs);
    return {
      async next() {
        try {
          const batch = await feed.next();
          heard = true;
          return batch;
        } catch (error) {
          connection.subscriptionFailed(feed.client, error);
          throw error;
        }
      },
      bytes: feed.bytes,
      close() {
        clearInterval(looking);
        feed.close();
      },
    };
  }

  /** Returns false if another client has replaced this one, or if its node does not lead. */
  function stillLeads(client: EventStoreDBClient, limits: CallLimits): Promise<boolean> {
    return connection
      .read(limits, async (current) => {
        await readHead(current, limits);
        return current === client;
      })
      .catch(() => false);
  }

  /** Throws StaleNode if the node that answers lacks what a subscription has yielded. */
  function requirePlace({ from, last }: Place, signal: AbortSignal): Promise<void> {
    const limits = { signal, attemptMs: () => attemptMs };
    return connection.read(limits, async (client) => {
      if (last !== null) {
        if (await hasEvent(client, prefix, last, limits)) return;
        throw new StaleNode(`revision ${last.revision} of ${last.stream}`);
      }
      const head = (await readHead(client, limits)) ?? 0n;
      if (from !== null && head < from) throw new StaleNode(`position ${from}`);
    });
  }

  /** Yields the batches of a feed of its own, then those of the shared one, until the feed ends. */
  async function* batchesFrom(options: SubscribeOptions): AsyncGenerator<EventBatch, void, void> {
    const { streams = [''] } = options;
    let feed: Feed = await open(options);
    let own = true;
    try {
      for (let batch = await feed.next(); batch !== null; batch = await feed.next()) {
        yield batch;
        if (!own || !batch.caughtUp) continue;
        const joined = shared.join(batch.position, { ...options, streams });
        if (joined === null) continue;
        feed.close();
        feed = joined;
        own = false;
      }
    } finally {
      feed.close();
    }
  }

  return async function* subscribe(
    options: SubscribeOptions,
  ): AsyncGenerator<EventBatch, void, void> {
    const { signal } = options;
    let { from } = options;
    let last: StoredEvent | null = null;
    let failures = 0;
    let isAgain = false;
    let lacksSince: number | null = null;
    const leave = shared.enter();
    try {
      while (!signal.aborted) {
        try {
          if (isAgain) await requirePlace({ from, last }, signal);
          lacksSince = null;
          for await (const batch of batchesFrom({ ...options, from })) {
            failures = 0;
            from = batch.position;
            last = batch.events.findLast(({ isForeign }) => !isForeign) ?? last;
            yield batch;
          }
        } catch (error) {
          if (signal.aborted) return;
          if (!isTransient(error)) giveUp(error, 'follow $all');
          lacksSince = error instanceof StaleNode ? (lacksSince ?? performance.now()) : null;
          if (lacksSince !== null && performance.now() - lacksSince > staleMs) throw lost(from);
        }
        const pauseMs = Math.min(RECONNECT_AFTER_MS.first * 2 ** failures, RECONNECT_AFTER_MS.most);
        failures += 1;
        isAgain = true;
        await pause(pauseMs * (0.5 + Math.random() / 2), signal);
      }
    } finally {
      leave();
    }
  };
}

function lost(position: bigint | null): LogReplaced {
  return new LogReplaced(
    `EventStoreDB: the log has no longer what it had up to position ${position}: an older copy ` +
      'of it was restored, or another one took its place',
  );
}
