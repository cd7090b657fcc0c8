import {
  type ResolvedEvent,
  StreamDeletedError,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import type { NewEvent, StoredEvent } from '../../../domain/events/event.ts';
import {
  type AppendLimit,
  type AppendResult,
  type EventBatch,
  type EventStore,
  type ExpectedRevision,
  RevisionConflict,
} from '../port.ts';
import { createCalls, type Timeouts } from './calls.ts';
import type { EventStoreDbSignIn } from './client-url.ts';
import { shareConnection } from './connection.ts';
import { LogReplaced, StaleNode } from './errors.ts';
import { collect, readHead } from './reads.ts';
import { toRecord, toStoredEvent } from './records.ts';
import { createSeenRevisions } from './seen-revisions.ts';
import { createSubscriptions } from './subscription.ts';

const STALE_MS = 10_000;
const REMOVALS_AT_ONCE = 8;
/** Events of one read. Those of a long stream, the pages of a batch, have 32 KiB. */
const PAGE = 100;

export interface EventStoreDbOptions extends EventStoreDbSignIn {
  /** Precedes every stream name. The prefix of one installation must not begin with another's. */
  prefix: string;
  timeouts?: Timeouts;
  /**
   * True for a reader whose subscriptions also yield what other programs and the server wrote under
   * the prefix, as unreadable events.
   */
  keepsUnreadable?: boolean;
  /** How long a node can answer as the leader after it has lost its lead. 10 s by default. */
  staleMs?: number;
}

/**
 * Opens the log of one installation in an EventStoreDB or KurrentDB. Its position is the commit
 * position. All stores of a process share one connection. Throws Error while a store with another
 * URL is open, and EventStoreUnusable if the URL can't be used. In a secured cluster the user needs
 * the right to read `$all`.
 */
export function createEventStoreDb({
  prefix,
  timeouts = { attempt: 3_000, total: 10_000 },
  keepsUnreadable = false,
  staleMs = STALE_MS,
  ...location
}: EventStoreDbOptions): EventStore {
  const connection = shareConnection(location);
  const subscribe = createSubscriptions(connection, prefix, {
    attemptMs: timeouts.attempt,
    staleMs,
    keepsUnreadable,
  });
  const seen = createSeenRevisions();
  const calls = createCalls(timeouts);
  const { persist } = calls;

  async function append(
    stream: string,
    expected: ExpectedRevision,
    events: NewEvent[],
    { withinMs }: AppendLimit = {},
  ): Promise<AppendResult> {
    if (events.length === 0) throw new RangeError(`${stream}: an append needs at least one event`);
    const records = events.map(toRecord);
    try {
      const { revision, position } = await persist(
        `append to ${stream}`,
        (limits) => connection.append({ stream: prefix + stream, expected, records }, limits),
        withinMs,
      );
      seen.note(stream, revision);
      // A repeated append has no position if its events were scavenged since. The head is then
      // used: it is not before the append.
      return { revision, position: position ?? (await head()) ?? 0n, isNew: null };
    } catch (error) {
      if (error instanceof StreamDeletedError) throw new RevisionConflict(stream, expected, null);
      if (!(error instanceof WrongExpectedVersionError)) throw error;
      throw new RevisionConflict(stream, expected, actualRevision(error.actualVersion));
    }
  }

  /**
   * Reads a page after the other. Each has time limits of its own: a stream of tens of megabytes
   * takes longer than one try may.
   */
  async function read(
    stream: string,
    fromRevision = 0,
    limit = Number.POSITIVE_INFINITY,
  ): Promise<StoredEvent[]> {
    const found: ResolvedEvent[] = [];
    try {
      for (let more = limit > 0; more; ) {
        const maxCount = Math.min(PAGE, limit - found.length);
        const page = await readPage(stream, fromRevision + found.length, maxCount);
        found.push(...page);
        more = page.length === PAGE && found.length < limit;
      }
    } catch (error) {
      if (error instanceof StreamDeletedError) return [];
      throw error;
    }
    return found.flatMap(({ event }) => (event && toStoredEvent(event, prefix)) ?? []);
  }

  function readPage(stream: string, fromRevision: number, maxCount: number) {
    const options = { fromRevision: BigInt(fromRevision), maxCount, requiresLeader: true };
    return persist(`read ${stream}`, (limits) =>
      connection.read(limits, async (client) => {
        // What others append during the read may be missing.
        const newest = seen.newest(stream);
        const reading = collect<ResolvedEvent>(client.readStream(prefix + stream, options), limits);
        const page = await reading.catch((error: unknown) => {
          if (error instanceof StreamNotFoundError) return [];
          throw error;
        });
        // A short page ends where the node knows no further event.
        const end = Number(page.at(-1)?.event?.revision ?? fromRevision - 1);
        if (page.length < maxCount && end < newest)
          throw new StaleNode(`revision ${end + 1} of ${stream}`);
        return page;
      }),
    );
  }

  /** Notes the events that a subscription yields. */
  async function* noting(batches: AsyncGenerator<EventBatch>): AsyncGenerator<EventBatch> {
    try {
      for await (const batch of batches) {
        for (const { stream, revision, isForeign } of batch.events)
          if (!isForeign) seen.note(stream, revision);
        yield batch;
      }
    } catch (error) {
      // Otherwise each read of the log that took its place would count as stale for a minute.
      if (error instanceof LogReplaced) seen.forget();
      throw error;
    }
  }

  /**
   * Leaves a tombstone in place of each stream, so that nothing can be appended to it. A scavenge
   * of the server frees the space.
   */
  async function remove(streams: string[]): Promise<void> {
    const left = streams.values();
    const worker = async () => {
      for (const stream of left)
        await persist(`remove ${stream}`, (limits) =>
          connection.read(limits, (client) =>
            client
              .tombstoneStream(prefix + stream, { requiresLeader: true })
              .catch((error: unknown) => {
                if (!(error instanceof StreamDeletedError)) throw error;
              }),
          ),
        );
    };
    await Promise.all(Array.from({ length: REMOVALS_AT_ONCE }, worker));
  }

  const head = () =>
    persist('read the head of the log', (limits) =>
      connection.read(limits, (client) => readHead(client, limits)),
    );

  return {
    engine: 'eventstoredb',
    staleMs,
    append,
    read,
    head,
    remove,
    subscribe: (options) =>
      noting(subscribe({ ...options, signal: AbortSignal.any([options.signal, calls.closing]) })),
    async close() {
      if (calls.closing.aborted) return;
      calls.close();
      await connection.release();
    },
  };
}

function actualRevision(
  version: WrongExpectedVersionError['actualVersion'],
): ExpectedRevision | null {
  if (version === 'no_stream') return version;
  return typeof version === 'bigint' ? Number(version) : null;
}
