import {
  type AllStreamResolvedEvent,
  BACKWARDS,
  END,
  type EventStoreDBClient,
  type ResolvedEvent,
  StreamDeletedError,
  type StreamingRead,
  StreamNotFoundError,
} from '@eventstore/db-client';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import type { StoredEvent } from '../../../domain/events/event.ts';
import { EventStoreUnavailable } from '../port.ts';
import type { CallLimits } from './calls.ts';
import { toStoredEvent } from './records.ts';

/** Returns the position of the newest event of the server. Throws NotLeaderError on a follower. */
export async function readHead(
  client: EventStoreDBClient,
  limits: CallLimits,
): Promise<bigint | null> {
  const options = {
    direction: BACKWARDS,
    fromPosition: END,
    maxCount: 1,
    requiresLeader: true,
  } as const;
  const [last] = await collect<AllStreamResolvedEvent>(client.readAll(options), limits);
  return last?.event?.position.commit ?? null;
}

/**
 * Returns true if the log has an event, or has removed its whole stream. Throws NotLeaderError on a
 * follower.
 */
export async function hasEvent(
  client: EventStoreDBClient,
  prefix: string,
  { stream, revision, id }: StoredEvent,
  limits: CallLimits,
): Promise<boolean> {
  const options = { fromRevision: BigInt(revision), maxCount: 1, requiresLeader: true };
  try {
    const reading = client.readStream(prefix + stream, options);
    const [found] = await collect<ResolvedEvent>(reading, limits);
    return found?.event !== undefined && toStoredEvent(found.event, prefix)?.id === id;
  } catch (error) {
    if (error instanceof StreamDeletedError) return true;
    if (error instanceof StreamNotFoundError) return false;
    throw error;
  }
}

/** Returns everything that a read gives. Throws EventStoreUnavailable when its time is over. */
export async function collect<T>(
  stream: StreamingRead<T>,
  { attemptMs }: CallLimits,
): Promise<T[]> {
  // The iterator throws the first error. Without a listener, a second one would end the process.
  stream.on('error', () => undefined);
  const items: T[] = [];
  const drain = async () => {
    for await (const item of stream) items.push(item);
    return items;
  };
  try {
    return await withTimeout(attemptMs(), drain(), EventStoreUnavailable);
  } finally {
    // It rejects if the call was never established.
    stream.cancel().catch(() => undefined);
  }
}
