import {
  type AllStreamResolvedEvent,
  BACKWARDS,
  END,
  type EventStoreDBClient,
  type StreamingRead,
} from '@eventstore/db-client';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { EventStoreUnavailable } from '../port.ts';
import type { CallLimits } from './calls.ts';

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
