/*
 * Reads of the log that end where the log ends now. A log that is down sends nothing, so each read
 * has a time limit.
 */
import {
  type EventBatch,
  type EventStore,
  EventStoreUnavailable,
} from '../adapters/event-store/port.ts';
import { loadCheckpoint } from './checkpoint.ts';
import type { Consumer, ConsumerDeps } from './consumer.ts';

/** The log counts as down if a reader that is not at its end receives nothing for this long. */
const SILENT_MS = 10_000;

/**
 * Returns true if a consumer has processed all of its events that the log holds now, in any
 * process. It is enough that it has passed `end`: a log that grows all the time always holds one
 * more. Throws EventStoreUnavailable if the log sends nothing for ten seconds.
 */
export async function isCaughtUp(
  { store, sql }: Pick<ConsumerDeps, 'store' | 'sql'>,
  { name, table, streams }: Pick<Consumer, 'name' | 'table' | 'streams'>,
  { signal, end = null }: { signal?: AbortSignal; end?: bigint | null } = {},
): Promise<boolean> {
  const checkpoint = await loadCheckpoint(sql, table, name);
  if (!checkpoint) return false;
  const limit = silenceLimit(signal);
  try {
    const from = checkpoint.position === 0n ? null : checkpoint.position;
    for await (const { events, caughtUp } of store.subscribe({
      from,
      signal: limit.signal,
      batchSize: 1,
      streams,
    })) {
      if (events.length > 0) return end !== null && checkpoint.position >= end;
      if (caughtUp) return true;
      limit.extend();
    }
    if (signal?.aborted) return false;
    throw notInTime(name);
  } finally {
    limit.end();
  }
}

/**
 * Yields everything in these streams that the log holds now, after a position. Throws
 * EventStoreUnavailable if the log sends nothing for ten seconds.
 */
export async function* readToEnd(
  store: EventStore,
  streams: string[],
  from: bigint | null = null,
): AsyncGenerator<EventBatch, void, void> {
  const limit = silenceLimit();
  try {
    for await (const batch of store.subscribe({ from, signal: limit.signal, streams })) {
      yield batch;
      if (batch.caughtUp) return;
      limit.extend();
    }
    throw notInTime('a reader');
  } finally {
    limit.end();
  }
}

/** Creates a signal that aborts with one of `signals`, or after 10 s without `extend`. */
export function silenceLimit(...signals: (AbortSignal | undefined)[]) {
  const silent = new AbortController();
  const timer = setTimeout(() => silent.abort(), SILENT_MS);
  const others = signals.filter((signal) => signal !== undefined);
  return {
    signal: AbortSignal.any([silent.signal, ...others]),
    extend: () => void timer.refresh(),
    end() {
      clearTimeout(timer);
      silent.abort();
    },
  };
}

export function notInTime(consumer: string): EventStoreUnavailable {
  return new EventStoreUnavailable(
    `The event log sent nothing to ${consumer} for ${SILENT_MS / 1_000} seconds`,
  );
}
