/*
 * Reads that expect the newest events. A former leader of an EventStoreDB that was frozen answers for
 * some seconds without them. So there an event has to stay missing before it counts as missing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventStore } from '../adapters/event-store/port.ts';
import type { StoredEvent } from '../domain/events/event.ts';

const LOOK_MS = 500;
const READS_AT_ONCE = 64;

/** Reads an event; null if the log does not have it. */
export async function findEvent(
  store: EventStore,
  { stream, revision }: { stream: string; revision: number },
): Promise<StoredEvent | null> {
  const read = async () => (await store.read(stream, revision, 1))[0] ?? null;
  return retried(store, read, (found) => found !== null);
}

/** Returns those of the streams that the log does not have. */
export async function missingStreams(store: EventStore, streams: string[]): Promise<string[]> {
  let missing = streams;
  const read = async () => {
    missing = await withoutEvents(store, missing);
    return missing;
  };
  return retried(store, read, (left) => left.length === 0);
}

async function withoutEvents(store: EventStore, streams: string[]): Promise<string[]> {
  const missing: string[] = [];
  const left = streams.values();
  const reader = async () => {
    for (const stream of left)
      if ((await store.read(stream, 0, 1)).length === 0) missing.push(stream);
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, reader));
  return missing;
}

/** Returns the position at which the log ends. Expects that it is `reached` at least. */
export function endOfLog(store: EventStore, reached: bigint): Promise<bigint> {
  const read = async () => (await store.head()) ?? 0n;
  return retried(store, read, (end) => end >= reached);
}

async function retried<T>(
  store: EventStore,
  read: () => Promise<T>,
  isExpected: (answer: T) => boolean,
): Promise<T> {
  const until = performance.now() + store.staleMs;
  for (;;) {
    const answer = await read();
    if (isExpected(answer) || performance.now() >= until) return answer;
    await sleep(LOOK_MS);
  }
}
