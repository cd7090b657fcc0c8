import { setTimeout as delay } from 'node:timers/promises';
import { type AllStreamResolvedEvent, type EventStoreDBClient, START, streamNameFilter } from '@eventstore/db-client';
import { createBell } from '../../../bell.ts';
import type { StoredEvent } from '../../../domain/event.ts';
import type { Batch, SubscribeOptions } from '../port.ts';
import { isTransient } from './errors.ts';
import { toStoredEvent } from './records.ts';

const BATCH_SIZE = 500;
/** In search windows of 32 events: where little or nothing in the log is ours, a restart rereads about a thousand. */
const CHECKPOINT_INTERVAL = 32;
/** Every event, mark and drop rings the bell; this only bounds its wait. */
const LOOK_AGAIN_MS = 60_000;
const RECONNECT_AFTER_MS = { first: 100, most: 5_000 };

/** Batches until the signal aborts, over as many subscriptions as it takes. Throws what no new attempt can mend. */
export async function* subscribe(client: EventStoreDBClient, prefix: string, options: SubscribeOptions): AsyncGenerator<Batch, void, void> {
  const { signal } = options;
  let from = options.from;
  let failures = 0;
  while (!signal.aborted) {
    const feed = openFeed(client, prefix, { ...options, from });
    try {
      for (let batch = await feed.next(); batch !== null; batch = await feed.next()) {
        failures = 0;
        from = batch.position;
        yield batch;
      }
    } finally {
      feed.close();
    }
    const pause = Math.min(RECONNECT_AFTER_MS.first * 2 ** failures, RECONNECT_AFTER_MS.most);
    failures += 1;
    await delay(pause * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
  }
}

/** A checkpoint (with its position) or a caught-up mark, due when so many events have been taken from the buffer. */
interface Mark {
  after: number;
  position: bigint | null;
}

/** One subscription: batches until it drops or the signal aborts, then null. */
function openFeed(client: EventStoreDBClient, prefix: string, options: SubscribeOptions) {
  const { signal, batchSize = BATCH_SIZE, streams = [''] } = options;
  const marks: Mark[] = [];
  let taken = 0;
  let position = options.from ?? 0n;
  let live = false;
  let told = { position, caughtUp: false };
  let dropped = false;
  let failure: unknown = null;
  const bell = createBell();

  const subscription = client.subscribeToAll(
    {
      // 0 is the place before the first event, which is what a batch of an empty log gives.
      fromPosition: position === 0n ? START : { commit: position, prepare: position },
      filter: streamNameFilter({
        prefixes: streams.map((stream) => prefix + stream),
        checkpointInterval: CHECKPOINT_INTERVAL,
        checkpointReached: (_, reached) => mark(reached.commit),
      }),
    },
    { highWaterMark: batchSize },
  );
  subscription.on('caughtUp', () => mark(null));
  subscription.on('readable', bell.ring);
  for (const event of ['end', 'close'] as const) subscription.on(event, () => drop(null));
  subscription.on('error', drop);
  signal.addEventListener('abort', bell.ring);

  // The client calls this as the mark arrives, ahead of the events that still lie in the buffer.
  function mark(reached: bigint | null): void {
    marks.push({ after: taken + subscription.readableLength, position: reached });
    bell.ring();
  }

  function drop(error: unknown): void {
    dropped = true;
    failure ??= error;
    bell.ring();
  }

  function passMarks(): void {
    while (marks[0] !== undefined && marks[0].after <= taken) {
      const reached = marks.shift()?.position ?? null;
      if (reached === null) live = true;
      else if (reached > position) position = reached;
    }
  }

  // Reads synchronously, so that `taken` and the buffer's length always add up when a mark arrives.
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
    if (events.length === 0 && position === told.position && caughtUp === told.caughtUp) return null;
    told = { position, caughtUp };
    return { events, position, caughtUp };
  }

  return {
    async next(): Promise<Batch | null> {
      while (!signal.aborted) {
        const batch = takeBatch();
        if (batch !== null) return batch;
        if (failure !== null && !isTransient(failure)) throw failure;
        if (dropped) return null;
        await bell.wait(LOOK_AGAIN_MS);
      }
      return null;
    },
    close(): void {
      signal.removeEventListener('abort', bell.ring);
      // It rejects where the call never came about.
      subscription.unsubscribe().catch(() => undefined);
    },
  };
}
