import {
  type AllStreamResolvedEvent,
  BACKWARDS,
  END,
  type ResolvedEvent,
  type StreamingRead,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import pRetry from 'p-retry';
import type { NewEvent, StoredEvent } from '../../domain/event.ts';
import { within } from '../../within.ts';
import { shareConnection } from './eventstoredb/connection.ts';
import { giveUp, isTransient } from './eventstoredb/errors.ts';
import { toRecord, toStoredEvent } from './eventstoredb/records.ts';
import { subscribe } from './eventstoredb/subscription.ts';
import { type AppendResult, type EventStore, EventStoreUnavailable, type ExpectedRevision, RevisionConflict } from './port.ts';

export interface EventStoreDbOptions {
  /** `esdb://...` or `esdb+discover://...`; it may carry the user name and password. */
  url: string;
  /** In front of every stream name. No installation's prefix may begin with that of another. */
  prefix: string;
  /** Milliseconds that one try may take, and that a call may take with all its tries. */
  timeouts?: { attempt: number; total: number };
}

/**
 * The log of one installation in an EventStoreDB or KurrentDB. Its position is the commit position.
 * All stores of a process share one connection; throws Error while a store of another URL is open.
 * In a secured cluster the user needs the right to read `$all`.
 */
export function createEventStoreDb({ url, prefix, timeouts = { attempt: 3_000, total: 10_000 } }: EventStoreDbOptions): EventStore {
  const connection = shareConnection(url);
  const closing = new AbortController();

  /** Tries until it succeeds, fails for good, or the time is over. */
  async function persist<T>(what: string, attempt: () => Promise<T>): Promise<T> {
    const tries = pRetry(attempt, {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 50,
      maxTimeout: 1_000,
      randomize: true,
      maxRetryTime: timeouts.total,
      shouldRetry: ({ error }) => isTransient(error),
      signal: closing.signal,
    });
    return within(timeouts.total, tries, EventStoreUnavailable).catch((error: unknown) => giveUp(error, what));
  }

  async function append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult> {
    if (events.length === 0) throw new RangeError(`${stream}: an append needs at least one event`);
    const records = events.map(toRecord);
    const expectedRevision = expected === 'no_stream' ? expected : BigInt(expected);
    try {
      const result = await persist(`append to ${stream}`, () =>
        connection.append(prefix + stream, records, expectedRevision, timeouts.attempt),
      );
      // A repeated append has no position once a scavenge took its events: then everything up to now is behind it.
      return { revision: Number(result.nextExpectedRevision), position: result.position?.commit ?? (await head()) ?? 0n };
    } catch (error) {
      if (!(error instanceof WrongExpectedVersionError)) throw error;
      throw new RevisionConflict(stream, expected, actualRevision(error.actualVersion));
    }
  }

  async function read(stream: string, fromRevision = 0): Promise<StoredEvent[]> {
    const open = () => connection.reader.readStream(prefix + stream, { fromRevision: BigInt(fromRevision) });
    try {
      const resolved = await persist(`read ${stream}`, () => collect<ResolvedEvent>(open(), timeouts.attempt));
      return resolved.flatMap(({ event }) => (event && toStoredEvent(event, prefix)) ?? []);
    } catch (error) {
      if (error instanceof StreamNotFoundError) return [];
      throw error;
    }
  }

  async function head(): Promise<bigint | null> {
    const open = () => connection.reader.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 });
    const [last] = await persist('read the head of the log', () => collect<AllStreamResolvedEvent>(open(), timeouts.attempt));
    return last?.event?.position.commit ?? null;
  }

  return {
    append,
    read,
    head,
    subscribe: (options) => subscribe(connection.reader, prefix, { ...options, signal: AbortSignal.any([options.signal, closing.signal]) }),
    async close() {
      if (closing.signal.aborted) return;
      closing.abort(new EventStoreUnavailable('the store was closed'));
      await connection.release();
    },
  };
}

function actualRevision(version: WrongExpectedVersionError['actualVersion']): ExpectedRevision | null {
  if (version === 'no_stream') return version;
  return typeof version === 'bigint' ? Number(version) : null;
}

/** Everything that a read gives. Where it takes longer than `timeoutMs`, EventStoreUnavailable. */
async function collect<T>(stream: StreamingRead<T>, timeoutMs: number): Promise<T[]> {
  // The iterator throws a first error; one that follows would end the process if nobody listened.
  stream.on('error', () => undefined);
  const items: T[] = [];
  const drain = async () => {
    for await (const item of stream) items.push(item);
    return items;
  };
  try {
    return await within(timeoutMs, drain(), EventStoreUnavailable);
  } finally {
    // It rejects where the call never came about.
    stream.cancel().catch(() => undefined);
  }
}
