import type { EventStoreDBClient } from '@eventstore/db-client';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streamsPb from '@eventstore/db-client/generated/streams_pb.js';
import { createWakeUp } from '../../../concurrency/wake-up.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import type { EventBatch, SubscribeOptions } from '../port.ts';
import { type LastingCall, openLastingCall } from './lasting-call.ts';
import { decodeReadAnswer, type ReadAnswer } from './read-messages.ts';
import { METADATA_OF, toForeignEvent, toStoredEvent } from './records.ts';

/*
 * One subscription to `$all`, as a sequence of batches. The call goes over the connection of the
 * library. The library's own subscriptions report checkpoint and caught-up marks before the events
 * that precede them.
 *
 * States:
 * - catching up: the server has not sent its caught-up mark, so every batch has `caughtUp` false.
 * - live: the mark has been passed. `caughtUp` is true if the buffer is empty.
 * - dropped: the call ended or failed. The feed gives what is left in the buffer. Then it returns
 *   null or throws the failure.
 *
 * What can go wrong: the server reports a checkpoint at a record that it has not sent: see
 * `passCheckpoint`.
 *
 * It relies on a server that reports when a subscription has caught up (`server-version.ts`), and
 * on answers that arrive in their order.
 */

export const BATCH_SIZE = 500;
/**
 * Counts search windows of 32 events. If few or none of the events in the log are ours, a restart
 * rereads two such intervals at most, about two thousand events: see `passCheckpoint`.
 */
const CHECKPOINT_INTERVAL = 32;
/** Bounds a wait. Every answer and drop already wakes the feed. */
const LOOK_AGAIN_MS = 60_000;

export interface Feed {
  /**
   * Resolves with the next batch, or with null after a drop or an abort. Rejects with the error
   * that failed the feed.
   */
  next(): Promise<EventBatch | null>;
  close(): void;
}

/** A feed that counts what it gives. */
export interface CountingFeed extends Feed {
  /** Returns the bytes of the messages of all events that it gave. */
  bytes(): number;
}

/** Opens a subscription to streams by their prefixes, after a position. */
export function openFeed(
  client: EventStoreDBClient,
  prefix: string,
  { from, signal, batchSize = BATCH_SIZE, streams = [''] }: SubscribeOptions,
  keepsUnreadable: boolean,
): CountingFeed {
  let buffer: ReadAnswer[] = [];
  let position = from ?? 0n;
  let checkpoint: bigint | null = null;
  let live = false;
  let lastGiven = { position, caughtUp: false };
  let dropped = false;
  let bytes = 0;
  let failure: unknown = null;
  const wakeUp = createWakeUp();
  let call: LastingCall | null = null;

  const own = streams.map((stream) => prefix + stream);
  const names = keepsUnreadable ? own.flatMap((name) => [name, METADATA_OF + name]) : own;
  const opening = openLastingCall({
    client,
    method: 'read',
    request: requestFor(position, names),
    received: (message) => receive(decodeReadAnswer(message)),
    ended: drop,
  }).then((opened) => {
    call = opened;
  }, drop);
  signal.addEventListener('abort', wakeUp.wake);

  function receive(answer: ReadAnswer): void {
    buffer.push(answer);
    if (buffer.length >= batchSize) call?.pause();
    wakeUp.wake();
  }

  function drop(error: unknown): void {
    dropped = true;
    failure ??= error;
    wakeUp.wake();
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

  function takeBatch(): EventBatch | null {
    const events: StoredEvent[] = [];
    let taken = 0;
    for (; taken < buffer.length && events.length < batchSize; taken++) {
      const answer = buffer[taken] as ReadAnswer;
      if (answer.kind === 'caught_up') live = true;
      else if (answer.kind === 'checkpoint') passCheckpoint(answer.position);
      else if (answer.kind === 'event') {
        position = answer.record.position?.commit ?? position;
        const stored = toStoredEvent(answer.record, prefix);
        const event = stored ?? (keepsUnreadable ? toForeignEvent(answer.record, prefix) : null);
        if (event !== null) {
          events.push(event);
          bytes += answer.bytes;
        }
      }
    }
    buffer = buffer.slice(taken);
    if (buffer.length < batchSize) call?.resume();
    const caughtUp = live && buffer.length === 0;
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
    bytes: () => bytes,
    close() {
      signal.removeEventListener('abort', wakeUp.wake);
      void opening.then(() => call?.cancel());
    },
  };
}

/**
 * Returns the request of a subscription to `$all` after a position, for streams by their prefixes.
 */
function requestFor(position: bigint, prefixes: string[]): Buffer {
  const { Options } = streamsPb.ReadReq;
  const all = new Options.AllOptions();
  // 0 is the position before the first event; a batch of an empty log has it.
  if (position === 0n) all.setStart(new shared.Empty());
  else {
    const after = new Options.Position().setCommitPosition(String(position));
    all.setPosition(after.setPreparePosition(String(position)));
  }
  const filter = new Options.FilterOptions()
    .setStreamIdentifier(new Options.FilterOptions.Expression().setPrefixList(prefixes))
    .setCount(new shared.Empty())
    .setCheckpointintervalmultiplier(CHECKPOINT_INTERVAL);
  const options = new Options()
    .setAll(all)
    .setSubscription(new Options.SubscriptionOptions())
    .setUuidOption(new Options.UUIDOption().setString(new shared.Empty()))
    .setFilter(filter);
  return Buffer.from(new streamsPb.ReadReq().setOptions(options).serializeBinary());
}
