import { setTimeout as delay } from 'node:timers/promises';
import {
  type AllStreamResolvedEvent,
  type EventStoreDBClient,
  START,
  streamNameFilter,
} from '@eventstore/db-client';
import { createWakeUp } from '../../../concurrency/wake-up.ts';
import type { StoredEvent } from '../../../domain/event.ts';
import type { Batch, SubscribeOptions } from '../port.ts';
import type { Connection } from './connection.ts';
import { giveUp, isTransient } from './errors.ts';
import { isPosition, toStoredEvent } from './records.ts';

/**
 * Follows `$all` from a position on, as an endless sequence of batches.
 *
 * `subscribe` opens a feed: one subscription of the client. It yields the batches of the feed. When
 * a feed ends, it pauses and opens the next one after the last yielded position. The pause is
 * 100 ms at first, doubles after each feed without a batch, and is at most 5 s. A random factor
 * shortens it, at most by half.
 *
 * States of a feed:
 * - catching up: the caught-up mark has not been passed, so every batch has `caughtUp` false.
 * - live: the mark has been passed. `caughtUp` is true if the client's buffer is empty.
 * - dropped: the subscription ended or failed. The feed gives what is left in the buffer. Then it
 *   returns null or throws the failure.
 *
 * What can go wrong:
 * - A connection breaks, or the leader changes. Such a failure is transient: the client for reads
 *   is replaced, and the next feed continues. `subscribe` throws any other failure.
 * - A checkpoint or caught-up mark overtakes events: the client reports it while earlier events are
 *   still in its buffer. So a mark counts only after those events have been taken.
 * - The server reports a checkpoint at a record that it has not sent: see `passCheckpoint`.
 *
 * It relies on:
 * - a server that reports when a subscription has caught up (`server-version.ts`)
 * - synchronous reads of the buffer, so that taken and buffered events add up to those received
 * - the high-water mark of the buffer, so that it never holds many more events than one batch
 */

const BATCH_SIZE = 500;
/**
 * Counts search windows of 32 events. If few or none of the events in the log are ours, a restart
 * rereads about a thousand.
 */
const CHECKPOINT_INTERVAL = 32;
/** Bounds a wait. Every event, mark and drop already wakes the feed. */
const LOOK_AGAIN_MS = 60_000;
const RECONNECT_AFTER_MS = { first: 100, most: 5_000 };

/**
 * Yields batches until the signal aborts, with a new subscription after each transient failure.
 * Throws any other failure.
 */
export async function* subscribe(
  connection: Pick<Connection, 'read' | 'subscriptionFailed'>,
  prefix: string,
  connectWithinMs: number,
  options: SubscribeOptions,
): AsyncGenerator<Batch, void, void> {
  const { signal } = options;
  const limits = { signal, attemptMs: () => connectWithinMs };
  let from = options.from;
  let failures = 0;
  while (!signal.aborted) {
    let feed: Feed | null = null;
    try {
      const position = from;
      feed = await connection.read(limits, async (client) =>
        openFeed(client, prefix, { ...options, from: position }),
      );
      for (let batch = await feed.next(); batch !== null; batch = await feed.next()) {
        failures = 0;
        from = batch.position;
        yield batch;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!isTransient(error)) giveUp(error, 'follow $all');
      if (feed) connection.subscriptionFailed(feed.client, error);
    } finally {
      feed?.close();
    }
    const pause = Math.min(RECONNECT_AFTER_MS.first * 2 ** failures, RECONNECT_AFTER_MS.most);
    failures += 1;
    await delay(pause * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
  }
}

interface Mark {
  /** The mark counts once so many events have been taken from the buffer. */
  after: number;
  /** The position of a checkpoint; null for a caught-up mark. */
  position: bigint | null;
}

type Feed = ReturnType<typeof openFeed>;

/**
 * Opens one subscription. `next` resolves with batches, and with null after a drop or an abort. It
 * rejects with the error that failed the subscription.
 */
function openFeed(client: EventStoreDBClient, prefix: string, options: SubscribeOptions) {
  const { signal, batchSize = BATCH_SIZE, streams = [''] } = options;
  const marks: Mark[] = [];
  let taken = 0;
  let position = options.from ?? 0n;
  let checkpoint: bigint | null = null;
  let live = false;
  let lastGiven = { position, caughtUp: false };
  let dropped = false;
  let failure: unknown = null;
  const wakeUp = createWakeUp();

  const subscription = client.subscribeToAll(
    {
      // 0 is the position before the first event; a batch of an empty log has it.
      fromPosition: position === 0n ? START : { commit: position, prepare: position },
      filter: streamNameFilter({
        prefixes: streams.map((stream) => prefix + stream),
        checkpointInterval: CHECKPOINT_INTERVAL,
        checkpointReached: (_, { commit }) => {
          if (isPosition(commit)) mark(commit);
        },
      }),
      requiresLeader: true,
    },
    { highWaterMark: batchSize },
  );
  subscription.on('caughtUp', () => mark(null));
  subscription.on('readable', wakeUp.wake);
  for (const event of ['end', 'close'] as const) subscription.on(event, () => drop(null));
  subscription.on('error', drop);
  signal.addEventListener('abort', wakeUp.wake);

  // The client calls this when the mark arrives, while earlier events are still in the buffer.
  function mark(reached: bigint | null): void {
    marks.push({ after: taken + subscription.readableLength, position: reached });
    wakeUp.wake();
  }

  function drop(error: unknown): void {
    dropped = true;
    failure ??= error;
    wakeUp.wake();
  }

  function passMarks(): void {
    while (marks[0] !== undefined && marks[0].after <= taken) {
      const reached = marks.shift()?.position ?? null;
      if (reached === null) live = true;
      else passCheckpoint(reached);
    }
  }

  /**
   * Counts a checkpoint only when a later one has come. The later one proves that the log went on
   * and that the record at the earlier position was sent. Without it, resuming behind a checkpoint
   * could skip an event:
   * - While it catches up, the server also sends the position of a record that it has not sent yet,
   *   as (position, prepare 0).
   * - KurrentDB 25.0.0 sends the end of the log in this way, where the next event will be.
   */
  function passCheckpoint(reached: bigint): void {
    if (checkpoint !== null && checkpoint < reached && checkpoint > position) position = checkpoint;
    if (checkpoint === null || checkpoint < reached) checkpoint = reached;
  }

  // Must read synchronously: when a mark arrives, `taken` plus the buffer's length must be exact.
  function takeBatch(): Batch | null {
    const events: StoredEvent[] = [];
    while (events.length < batchSize) {
      const resolved: AllStreamResolvedEvent | null = subscription.read();
      if (resolved === null) break;
      taken += 1;
      if (resolved.event === undefined) continue;
      position = resolved.event.position.commit;
      const event = toStoredEvent(resolved.event, prefix);
      if (event !== null) events.push(event);
    }
    passMarks();
    const caughtUp = live && subscription.readableLength === 0;
    const hasChanged = position !== lastGiven.position || caughtUp !== lastGiven.caughtUp;
    if (events.length === 0 && !hasChanged) return null;
    lastGiven = { position, caughtUp };
    return { events, position, caughtUp };
  }

  return {
    client,
    async next(): Promise<Batch | null> {
      while (!signal.aborted) {
        const batch = takeBatch();
        if (batch !== null) return batch;
        if (failure !== null) throw failure;
        if (dropped) return null;
        await wakeUp.wait(LOOK_AGAIN_MS);
      }
      return null;
    },
    close(): void {
      signal.removeEventListener('abort', wakeUp.wake);
      // It rejects if the call was never established.
      subscription.unsubscribe().catch(() => undefined);
    },
  };
}
