import {
  type AllStreamResolvedEvent,
  type EventStoreDBClient,
  START,
  streamNameFilter,
} from '@eventstore/db-client';
import { createWakeUp } from '../../../concurrency/wake-up.ts';
import type { StoredEvent } from '../../../domain/event.ts';
import type { Batch, SubscribeOptions } from '../port.ts';
import { isPosition, toStoredEvent } from './records.ts';

/*
 * One subscription of the client to `$all`, as a sequence of batches.
 *
 * States:
 * - catching up: the caught-up mark has not been passed, so every batch has `caughtUp` false.
 * - live: the mark has been passed. `caughtUp` is true if the client's buffer is empty.
 * - dropped: the subscription ended or failed. The feed gives what is left in the buffer. Then it
 *   returns null or throws the failure.
 *
 * What can go wrong:
 * - A checkpoint or caught-up mark overtakes events: the client reports it while earlier events are
 *   still in its buffer. So a mark counts only after those events have been taken.
 * - The server reports a checkpoint at a record that it has not sent: see `passCheckpoint`.
 *
 * It relies on:
 * - a server that reports when a subscription has caught up (`server-version.ts`)
 * - synchronous reads of the buffer, so that taken and buffered events add up to those received
 * - the high-water mark of the buffer, so that it never holds many more events than one batch
 */

export const BATCH_SIZE = 500;
/**
 * Counts search windows of 32 events. If few or none of the events in the log are ours, a restart
 * rereads about a thousand.
 */
const CHECKPOINT_INTERVAL = 32;
/** Bounds a wait. Every event, mark and drop already wakes the feed. */
const LOOK_AGAIN_MS = 60_000;

export interface Feed {
  /**
   * Resolves with the next batch, or with null after a drop or an abort. Rejects with the error that
   * failed the feed.
   */
  next(): Promise<Batch | null>;
  close(): void;
}

interface Mark {
  /** The mark counts once so many events have been taken from the buffer. */
  after: number;
  /** The position of a checkpoint; null for a caught-up mark. */
  position: bigint | null;
}

export function openFeed(
  client: EventStoreDBClient,
  prefix: string,
  options: SubscribeOptions,
): Feed {
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
    async next() {
      while (!signal.aborted) {
        const batch = takeBatch();
        if (batch !== null) return batch;
        if (failure !== null) throw failure;
        if (dropped) return null;
        await wakeUp.wait(LOOK_AGAIN_MS);
      }
      return null;
    },
    close() {
      signal.removeEventListener('abort', wakeUp.wake);
      // It rejects if the call was never established.
      subscription.unsubscribe().catch(() => undefined);
    },
  };
}
