/**
 * The event store in the installation's own Postgres: the table `log.events`, the row `log.head`,
 * and the SQL function `log.append`.
 *
 * Appending: each process makes one call of `log.append` at a time. Appends that arrive meanwhile
 * share the next call, at most 64 of them. A call names each stream once, so two appends to one
 * stream go into two calls. The function locks the head row: positions have no gaps and become
 * visible in order. It notifies the channel `waybill_log` of the kinds of streams and the new head.
 *
 * Subscribing: each subscription has an append cache (`append-cache.ts`) and is in one of two
 * states.
 *
 * - Up to date: it takes the events of its own process from the cache, without a read.
 * - Behind: it reads from the table. An event of another process, a full cache, a reconnect or a
 *   second without a wake-up put it into this state.
 *
 * What can go wrong:
 *
 * - The answer to an append is lost. The call is repeated, for up to 10 s. `log.append` returns the
 *   first result for the same ids at the same revisions, so a repetition is safe.
 * - Postgres stays unavailable. Appends and reads throw EventStoreUnavailable; subscriptions
 *   retry every second.
 * - Postgres rejects one append of a call, or a row beside it. The appends are then made one by
 *   one.
 * - A notification is lost. The poll after a second finds the events.
 * - The log was moved to the other engine, and a process that stood still meanwhile appends here.
 *   The log is closed, and `log.append` refuses.
 *
 * It relies on the head lock, and on a driver that rejects every query of a lost connection.
 */
import { createBatcher } from '../../concurrency/batcher.ts';
import { withTimeout } from '../../concurrency/with-timeout.ts';
import { canonicalJson } from '../../domain/canonical-json.ts';
import type { EventMetadata, NewEvent, StoredEvent } from '../../domain/event.ts';
import type { Fragment, Sql } from '../postgres/connect.ts';
import { jsonArray } from '../postgres/json-array.ts';
import { listen } from '../postgres/listen.ts';
import { isPostgresUnavailable } from '../postgres/unavailable.ts';
import { type AppendCache, createAppendCache } from './append-cache.ts';
import {
  type AppendResult,
  type Batch,
  type Beside,
  type EventStore,
  EventStoreUnavailable,
  type ExpectedRevision,
  RevisionConflict,
  type SubscribeOptions,
} from './port.ts';
import { countRemoved, findPositionFaults } from './postgres-positions.ts';
import { readAfter } from './postgres-read.ts';

const CHANNEL = 'waybill_log';
const APPENDS_PER_CALL = 64;
/** No stream has this many events: the largest integer of Postgres. */
const ANY_REVISION = 2_147_483_647;
/** Notifications may be lost with a connection. This poll finds the events that none announced. */
const POLL_MS = 1_000;
/**
 * Maximum number of events that wait in the append cache of a subscription: more than a request for
 * a batch of transfers causes, or a busy process in a second. The caches share the events.
 */
const ROOM = 5_000;
/**
 * After this time, the call is repeated over another connection. Otherwise it takes 15 minutes to
 * notice that the other end of a connection has vanished. A slow first call may still answer.
 */
const ANSWER_WITHIN_MS = 5_000;
const RETRY_FOR_MS = 10_000;
/** `log.append` raises it. */
const LOG_CLOSED = 'WB001';

interface Append {
  stream: string;
  expected: ExpectedRevision;
  events: NewEvent[];
  beside: Beside | null;
}

/**
 * The result of one append. A null position means that it was rejected; `revision` is then the one
 * found.
 */
interface Verdict {
  revision: number;
  position: bigint | null;
  /** False if the append was a repetition of an earlier one. */
  appended: boolean;
}

/** An append that Postgres itself rejects has its own error. */
type Outcome = Verdict | { error: unknown };

/** An event as it is written. Its data and metadata are the exact bytes that are hashed. */
interface Row {
  id: string;
  type: string;
  schema_version: number;
  data: string;
  metadata: string;
}

interface NewRow extends Row {
  /** Number of its append in the call, and its place in that append; both from 1. */
  owner: number;
  place: number;
}

interface StoredRow extends Row {
  position: bigint;
  stream: string;
  revision: number;
}

export interface PostgresLogOptions {
  sql: Sql;
  prefix: string;
  /** True for the copy of a log in another engine. Only a copy may append to a closed log. */
  isCopy?: boolean;
}

/** Creates the event store in the schema `log` of the installation's own Postgres. */
export function createPostgresLog({ sql, prefix, isCopy = false }: PostgresLogOptions): EventStore {
  /** One cache per subscription. */
  const caches = new Set<AppendCache>();
  /** What was announced during an append, handled after it. Most of it is that very append. */
  const deferred: Parameters<typeof announce>[] = [];
  let appending = 0;
  let lookedAt = -Infinity;
  let unlisten: (() => void) | null = null;

  /**
   * Makes one call at a time. Appends that arrive meanwhile share the next call and its one flush
   * to disk.
   */
  const appendOne = createBatcher(appendAll, { limit: APPENDS_PER_CALL, answerWithinMs: null });

  async function append(
    stream: string,
    expected: ExpectedRevision,
    events: NewEvent[],
    beside: Beside | null = null,
  ): Promise<AppendResult> {
    if (events.length === 0) throw new RangeError(`${stream}: an append needs at least one event`);
    const outcome = await appendOne({ stream: prefix + stream, expected, events, beside });
    if ('error' in outcome) throw outcome.error;
    const { revision, position, appended: isNew } = outcome;
    if (position === null)
      throw new RevisionConflict(stream, expected, revision < 0 ? 'no_stream' : revision);
    return { revision, position, isNew };
  }

  async function appendAll(appends: Append[]): Promise<Outcome[]> {
    const outcomes = new Map<Append, Outcome>();
    for (const group of groupsOf(appends)) {
      const results = await appendGroup(group);
      for (const [i, member] of group.entries()) outcomes.set(member, results[i] as Outcome);
    }
    return appends.map((member) => outcomes.get(member) as Outcome);
  }

  /** Throws EventStoreUnavailable for the whole group. */
  async function appendGroup(group: Append[]): Promise<Outcome[]> {
    try {
      return await callAppend(group);
    } catch (error) {
      if (error instanceof EventStoreUnavailable) throw error;
      if (group.length === 1) return [{ error }];
      // One append that Postgres rejects must not fail the others.
      const outcomes: Outcome[] = [];
      for (const member of group) outcomes.push(...(await appendGroup([member])));
      return outcomes;
    }
  }

  async function callAppend(group: Append[]): Promise<Verdict[]> {
    const rows = group.flatMap(({ events }, i) =>
      events.map((event, n) => toRow(event, i + 1, n + 1)),
    );
    const besides = besidesOf(group);
    appending++;
    try {
      const verdicts = await retryWhileUnavailable(() => {
        const call = sql`
          log.append(
            ${group.map((member) => member.stream)}::text[],
            ${group.map(({ expected }) => (expected === 'no_stream' ? -1 : expected))}::integer[],
            ${group.map((member) => member.events.length)}::integer[],
            ${rows.map(({ owner }) => owner)}::integer[],
            ${rows.map(({ place }) => place)}::integer[],
            ${rows.map(({ id }) => id)}::text[],
            ${rows.map(({ type }) => type)}::text[],
            ${rows.map(({ schema_version }) => schema_version)}::integer[],
            ${jsonArray(
              sql,
              rows.map(({ data }) => data),
            )},
            ${jsonArray(
              sql,
              rows.map(({ metadata }) => metadata),
            )},
            ${isCopy})`;
        return besides.size === 0
          ? sql<Verdict[]>`select revision, position, appended from ${call}`
          : sql<Verdict[]>`
              with appended as materialized (
                select * from ${call} with ordinality as a(revision, position, appended, nr)
              ) ${writesOf(sql, besides)}
              select revision, position, appended from appended order by nr`;
      }).catch(refusedIfClosed);
      addToCaches(group, verdicts, rows);
      return verdicts;
    } finally {
      if (--appending === 0) for (const announced of deferred.splice(0)) announce(...announced);
    }
  }

  /**
   * Passes the appended events to the subscriptions of this process, which then need not read them.
   */
  function addToCaches(group: Append[], verdicts: Verdict[], rows: NewRow[]): void {
    if (caches.size === 0) return;
    const events = rows.flatMap(({ owner, place, ...row }) => {
      const { stream, events } = group[owner - 1] as Append;
      const { appended, revision, position } = verdicts[owner - 1] as Verdict;
      if (!appended || position === null) return [];
      const later = events.length - place;
      return [
        toEvent({ ...row, stream, revision: revision - later, position: position - BigInt(later) }),
      ];
    });
    const [first] = events;
    const last = events.at(-1);
    // The head of the log was locked, so no other process has events between these.
    if (first && last) for (const cache of caches) cache.add(first.position, last.position, events);
  }

  const readOne = createBatcher(readStreams, { answerWithinMs: null });

  async function readStreams(
    reads: { stream: string; from: number; limit: number }[],
  ): Promise<StoredEvent[][]> {
    const rows = await retryWhileUnavailable(
      () => sql<(StoredRow & { read: bigint })[]>`
        select r.read, e.position, e.stream, e.revision, e.id, e.type, e.schema_version, e.data,
               e.metadata
          from unnest(${reads.map(({ stream }) => prefix + stream)}::text[],
                      ${reads.map(({ from }) => from)}::integer[],
                      ${reads.map(({ from, limit }) => Math.min(from + limit, ANY_REVISION))}::integer[])
               with ordinality as r(stream, first, beyond, read)
          cross join lateral (
            select * from log.events where stream = r.stream and revision >= r.first and revision < r.beyond) e
         order by r.read, e.revision`,
    );
    const found: StoredEvent[][] = reads.map(() => []);
    for (const row of rows) found[Number(row.read) - 1]?.push(toEvent(row));
    return found;
  }

  async function remove(
    streams: string[],
    { stream, revision }: { stream: string; revision: number },
  ): Promise<void> {
    await retryWhileUnavailable(
      () => sql`
        select log.remove(
          ${streams.map((name) => prefix + name)}::text[], ${prefix + stream}, ${revision})`,
    );
  }

  async function head(): Promise<bigint | null> {
    const rows = await retryWhileUnavailable(
      () => sql<{ position: bigint }[]>`select position from log.head`,
    );
    return rows[0]?.position || null;
  }

  async function* subscribe({
    from,
    signal,
    batchSize = 1_000,
    streams = [''],
    only,
  }: SubscribeOptions): AsyncGenerator<Batch> {
    const names = streams.map((stream) => prefix + stream);
    let position = from ?? 0n;
    let reportedCaughtUp = false;
    const cache = createAppendCache({ streams, names, from: position, room: ROOM });
    const { wakeUp } = cache;
    caches.add(cache);
    signal.addEventListener('abort', wakeUp.wake);
    const read = (after: bigint) =>
      readAfter(sql, prefix, { from: after, limit: batchSize, names, only });
    try {
      unlisten ??= listenForAppends();
      while (!signal.aborted) {
        const batch = cache.behind()
          ? await cache.read(position, read).catch(ignoreUnavailable)
          : cache.take(batchSize);
        if (signal.aborted) return;
        if (batch && (batch.position > position || !reportedCaughtUp)) {
          if (batch.position > position) position = batch.position;
          reportedCaughtUp = batch.caughtUp;
          yield { ...batch, position };
        }
        if (batch?.caughtUp !== false && !(await wakeUp.wait(POLL_MS))) void lookForAppends();
      }
    } finally {
      signal.removeEventListener('abort', wakeUp.wake);
      caches.delete(cache);
    }
  }

  function listenForAppends(): () => void {
    return listen(
      sql,
      CHANNEL,
      (notification) => {
        const kinds = notification.split(' ');
        const position = BigInt(kinds.pop() as string);
        announce(kinds, position);
      },
      () => announce(null, null),
    );
  }

  /** Finds appends whose notification was lost: one look a second for all subscriptions. */
  async function lookForAppends(): Promise<void> {
    if (performance.now() < lookedAt + POLL_MS) return;
    lookedAt = performance.now();
    const found = await sql<{ position: bigint }[]>`select position from log.head`.catch(() => []);
    // Without an answer, each subscription reads, and meets the error itself.
    announce(null, found[0]?.position ?? null);
  }

  function announce(kinds: string[] | null, position: bigint | null): void {
    if (appending > 0) deferred.push([kinds, position]);
    else for (const cache of caches) cache.announce(kinds, position);
  }

  function toEvent(row: StoredRow): StoredEvent {
    return {
      id: row.id,
      type: row.type,
      schema_version: row.schema_version,
      data: JSON.parse(row.data),
      metadata: JSON.parse(row.metadata) as EventMetadata,
      stream: row.stream.slice(prefix.length),
      revision: row.revision,
      position: row.position,
    };
  }

  return {
    engine: 'postgres',
    append: (stream, expected, events) => append(stream, expected, events),
    appendWith: append,
    read: (stream, from = 0, limit = ANY_REVISION) => readOne({ stream, from, limit }),
    subscribe,
    head,
    remove,
    findPositionFaults: () => findPositionFaults(sql),
    countRemoved: (after) => countRemoved(sql, after),
    // By the order, and not by a filter: a plan for any position would read the log behind it.
    queryNewest: (statement, streams, after, limit) => statement`
      select position, data,
             case when stream ^@ any(${streams.map((stream) => prefix + stream)}::text[])
                  then type end as type
        from (select * from log.events where position > ${after}
               order by position desc limit ${limit}) newest`,
    async close() {
      unlisten?.();
    },
  };
}

type Besides = Map<Beside['write'], { nr: number; item: unknown }[]>;

/** Returns the rows that a call writes beside its events, by what writes them. */
function besidesOf(group: Append[]): Besides {
  const besides: Besides = new Map();
  for (const [i, { beside }] of group.entries()) {
    if (beside === null) continue;
    const { write, item } = beside;
    besides.set(write, [...(besides.get(write) ?? []), { nr: i + 1, item }]);
  }
  return besides;
}

function writesOf(sql: Sql, besides: Besides): Fragment {
  return [...besides].reduce<Fragment>(
    (before, [write, items], i) => sql`${before}, ${sql(`beside_${i}`)} as (${write(sql, items)})`,
    sql``,
  );
}

function toRow(
  { id, type, schema_version, data, metadata }: NewEvent,
  owner: number,
  place: number,
): NewRow {
  return {
    owner,
    place,
    id,
    type,
    schema_version,
    data: canonicalJson(data) as string,
    metadata: canonicalJson(metadata),
  };
}

/**
 * Splits appends into groups with at most one append per stream: a second append to a stream
 * depends on the result of the first.
 */
function groupsOf(appends: Append[]): Iterable<Append[]> {
  const before = new Map<string, number>();
  const groups = Map.groupBy(appends, ({ stream }) => {
    const group = before.get(stream) ?? 0;
    before.set(stream, group + 1);
    return group;
  });
  return groups.values();
}

/**
 * Repeats a call that is safe to repeat until Postgres answers. Throws EventStoreUnavailable if it
 * does not answer in time.
 */
async function retryWhileUnavailable<T>(call: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + RETRY_FOR_MS;
  const { promise: answered, resolve: answer } = Promise.withResolvers<T>();
  for (let pause = 50; ; pause = Math.min(pause * 2, 1_000)) {
    try {
      const attempt = call();
      attempt.then(answer, () => undefined);
      return await withTimeout(
        ANSWER_WITHIN_MS,
        Promise.race([answered, attempt]),
        EventStoreUnavailable,
      );
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (performance.now() + pause > deadline)
        throw new EventStoreUnavailable('Postgres, which holds the event log, does not answer', {
          cause: error,
        });
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

/** A client repeats its request, and finds a process that appends to the new log. */
function refusedIfClosed(error: unknown): never {
  if ((error as { code?: unknown }).code !== LOG_CLOSED) throw error;
  throw new EventStoreUnavailable(
    'The log in Postgres is closed: the tables of this database follow the log in an EventStoreDB, ' +
      'to which it was moved',
    { cause: error },
  );
}

function ignoreUnavailable(error: unknown): null {
  if (!isUnavailable(error)) throw error;
  return null;
}

/**
 * Returns whether the error is a missing answer, a deadlock or a serialization failure (class 40).
 * The same call may succeed the next time.
 */
function isUnavailable(error: unknown): boolean {
  return (
    error instanceof EventStoreUnavailable ||
    isPostgresUnavailable(error) ||
    String((error as { code?: unknown }).code).startsWith('40')
  );
}
