import { setTimeout as sleep } from 'node:timers/promises';
import {
  type EventBatch,
  type EventStore,
  RevisionConflict,
  type SubscribeOptions,
} from '../../../src/adapters/event-store/port.ts';
import type { NewEvent } from '../../../src/domain/events/event.ts';
import { newId } from '../../../src/domain/ids.ts';

export function event(): NewEvent {
  return {
    id: newId('evt'),
    type: 'transfer.created',
    schema_version: 1,
    data: { transfer_id: newId('txr') },
    metadata: {
      actor: 'system',
      account_id: 'acc_default',
      correlation_id: newId('req'),
      causation_id: null,
      occurred_at: '2026-01-31T12:00:00.000Z',
      prev_hash: null,
    },
  };
}

export function events(count: number): NewEvent[] {
  return numbers(count).map(event);
}

/** From 0 to `count` - 1. */
export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

/** What a subscription has yielded so far. */
export interface Gathered {
  batches: EventBatch[];
  last: EventBatch;
  /** Events in all batches. */
  count: number;
}

export interface GatherOptions extends Omit<SubscribeOptions, 'signal'> {
  until(gathered: Gathered): boolean;
  /** Aborts too, as well as `until`. */
  signal?: AbortSignal;
  /** How long the consumer works on each batch. */
  pauseMs?: number;
}

/** Reads batches until `until` is true for one, then ends the subscription. */
export async function gather(
  store: EventStore,
  { until, signal, pauseMs = 0, ...options }: GatherOptions,
): Promise<EventBatch[]> {
  const stop = new AbortController();
  const batches: EventBatch[] = [];
  let count = 0;
  for await (const batch of store.subscribe({
    ...options,
    signal: AbortSignal.any([stop.signal, ...(signal ? [signal] : [])]),
  })) {
    if (stop.signal.aborted)
      throw new Error('The subscription gave a batch after its signal had aborted');
    batches.push(batch);
    count += batch.events.length;
    if (pauseMs > 0) await sleep(pauseMs);
    if (until({ batches, last: batch, count })) stop.abort();
  }
  return batches;
}

/** Grows with each attempt. Without a pause, the work grows with the square of the writers. */
const PAUSE_AFTER_CONFLICT_MS = 100;

/**
 * Appends one event as a command does: loads the stream and appends at its revision. On a conflict,
 * repeats both after a pause. Returns the revision of the event.
 */
export async function appendWithRetry(store: EventStore, stream: string): Promise<number> {
  let seen = -1;
  for (let attempt = 1; ; attempt++) {
    seen = (await store.read(stream, seen + 1)).at(-1)?.revision ?? seen;
    try {
      return (await store.append(stream, seen < 0 ? 'no_stream' : seen, events(1))).revision;
    } catch (error) {
      if (!(error instanceof RevisionConflict)) throw error;
      await sleep(Math.random() * PAUSE_AFTER_CONFLICT_MS * attempt);
    }
  }
}
