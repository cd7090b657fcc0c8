import { setTimeout as delay } from 'node:timers/promises';
import type { Batch, SubscribeOptions } from '../port.ts';
import type { Connection } from './connection.ts';
import { giveUp, isTransient } from './errors.ts';
import { type Feed, openFeed } from './feed.ts';
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
 * What can go wrong: a connection breaks, or the leader changes. Such a failure is transient: the
 * client for reads is replaced, and the next feed continues. A subscription throws any other
 * failure.
 */

const RECONNECT_AFTER_MS = { first: 100, most: 5_000 };

/**
 * Creates the function that subscribes. It yields batches until the signal aborts, with a new feed
 * after each transient failure. It throws any other failure.
 */
export function createSubscriptions(
  connection: Pick<Connection, 'read' | 'subscriptionFailed'>,
  prefix: string,
  connectWithinMs: number,
) {
  const shared = createSharedFeed(open);

  async function open(options: SubscribeOptions): Promise<Feed> {
    const limits = { signal: options.signal, attemptMs: () => connectWithinMs };
    const feed = await connection.read(limits, async (client) => ({
      client,
      ...openFeed(client, prefix, options),
    }));
    return {
      ...feed,
      async next() {
        try {
          return await feed.next();
        } catch (error) {
          connection.subscriptionFailed(feed.client, error);
          throw error;
        }
      },
    };
  }

  return async function* subscribe(options: SubscribeOptions): AsyncGenerator<Batch, void, void> {
    const { signal, streams = [''] } = options;
    let { from } = options;
    let failures = 0;
    const leave = shared.enter();
    try {
      while (!signal.aborted) {
        let feed: Feed | null = null;
        try {
          feed = await open({ ...options, from });
          let own = true;
          for (let batch = await feed.next(); batch !== null; batch = await feed.next()) {
            failures = 0;
            from = batch.position;
            yield batch;
            const joined =
              own && batch.caughtUp ? shared.join(from, { ...options, streams }) : null;
            if (joined === null) continue;
            feed.close();
            feed = joined;
            own = false;
          }
        } catch (error) {
          if (signal.aborted) return;
          if (!isTransient(error)) giveUp(error, 'follow $all');
        } finally {
          feed?.close();
        }
        const pause = Math.min(RECONNECT_AFTER_MS.first * 2 ** failures, RECONNECT_AFTER_MS.most);
        failures += 1;
        await delay(pause * (0.5 + Math.random() / 2), undefined, { signal }).catch(
          () => undefined,
        );
      }
    } finally {
      leave();
    }
  };
}
