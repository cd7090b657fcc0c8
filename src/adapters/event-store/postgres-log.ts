import canonicalize from 'canonicalize';
import { createBatcher } from '../../batcher.ts';
import type { EventMetadata, NewEvent, StoredEvent } from '../../domain/event.ts';
import { within } from '../../within.ts';
import type { Sql } from '../postgres/connect.ts';
import { isPostgresUnavailable } from '../postgres/unavailable.ts';
import {
  type AppendResult,
  type Batch,
  type EventStore,
  EventStoreUnavailable,
  type ExpectedRevision,
  RevisionConflict,
  type SubscribeOptions,
} from './port.ts';
import { createTail, type Tail } from './tail.ts';

const CHANNEL = 'waybill_log';
const APPENDS_PER_CALL = 64;
/** The notification is a hint that may be lost with a connection; this finds what it did not announce. */
const POLL_MS = 1_000;
/**
 * That the other end of a connection has vanished is not noticed for a quarter of an hour: then the call is made once more over
 * another one. What was only slow may still answer.
 */
const ANSWER_WITHIN_MS = 5_000;
const RETRY_FOR_MS = 10_000;

interface Append {
  stream: string;
  expected: ExpectedRevision;
  events: NewEvent[];
}

/** A position of null: refused, and `revision` is what was found. */
interface Verdict {
  revision: number;
  position: bigint | null;
  /** False for one that was made before. */
  appended: boolean;
}

/** An append that Postgres refuses by itself has an error of its own. */
type Outcome = Verdict | { error: unknown };

/** An event as it is written; its data and metadata in the very bytes that are hashed. */
interface Row {
  id: string;
  type: string;
  schema_version: number;
  data: string;
  metadata: string;
}

interface NewRow extends Row {
  /** Which of the appends it belongs to, and its place in that one; both from 1. */
  owner: number;
  place: number;
}

interface StoredRow extends Row {
  position: bigint;
  stream: string;
  revision: number;
}

/** The event store in the installation's own Postgres, in the schema `log`. */
export function createPostgresLog({ sql, prefix }: { sql: Sql; prefix: string }): EventStore {
  /** Of each subscription. */
  const tails = new Set<Tail>();
  /** What was heard while an append was under way: most often that very append. */
  const heard: { kinds: string[]; position: bigint }[] = [];
  let appending = 0;
  let listening: Promise<{ unlisten(): Promise<void> }> | null = null;

  /** One call at a time: what arrives meanwhile shares the next one, and its one flush to disk. */
  const appendOne = createBatcher(appendAll, { limit: APPENDS_PER_CALL, answerWithinMs: null });

  async function append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult> {
    if (events.length === 0) throw new RangeError(`${stream}: an append needs at least one event`);
    const outcome = await appendOne({ stream: prefix + stream, expected, events });
    if ('error' in outcome) throw outcome.error;
    const { revision, position } = outcome;
    if (position === null) throw new RevisionConflict(stream, expected, revision < 0 ? 'no_stream' : revision);
    return { revision, position };
  }

  async function appendAll(appends: Append[]): Promise<Outcome[]> {
    const outcomes = new Map<Append, Outcome>();
    for (const group of inGroups(appends)) {
      const ofGroup = await appendGroup(group);
      for (const [i, member] of group.entries()) outcomes.set(member, ofGroup[i] as Outcome);
    }
    return appends.map((member) => outcomes.get(member) as Outcome);
  }

  /** Throws EventStoreUnavailable for all of them. */
  async function appendGroup(group: Append[]): Promise<Outcome[]> {
    try {
      return await callAppend(group);
    } catch (error) {
      if (error instanceof EventStoreUnavailable) throw error;
      if (group.length === 1) return [{ error }];
      // One append that Postgres refuses must not take the others with it.
      const outcomes: Outcome[] = [];
      for (const member of group) outcomes.push(...(await appendGroup([member])));
      return outcomes;
    }
  }

  async function callAppend(group: Append[]): Promise<Verdict[]> {
    const rows = group.flatMap(({ events }, i) => events.map((event, n) => toRow(event, i + 1, n + 1)));
    appending++;
    try {
      const verdicts = await retryWhileUnavailable(
        () => sql<Verdict[]>`
          select revision, position, appended from log.append(
            ${group.map((member) => member.stream)}::text[],
            ${group.map((member) => (member.expected === 'no_stream' ? -1 : member.expected))}::integer[],
            ${group.map((member) => member.events.length)}::integer[],
            ${rows.map(({ owner }) => owner)}::integer[],
            ${rows.map(({ place }) => place)}::integer[],
            ${rows.map(({ id }) => id)}::text[],
            ${rows.map(({ type }) => type)}::text[],
            ${rows.map(({ schema_version }) => schema_version)}::integer[],
            ${rows.map(({ data }) => data)}::text[],
            ${rows.map(({ metadata }) => metadata)}::text[])`,
      );
      hand(group, verdicts, rows);
      return verdicts;
    } finally {
      if (--appending === 0) for (const { kinds, position } of heard.splice(0)) announce(kinds, position);
    }
  }

  /** What was appended here goes to the subscriptions of this process without being read back. */
  function hand(group: Append[], verdicts: Verdict[], rows: NewRow[]): void {
    if (tails.size === 0) return;
    const events = rows.flatMap(({ owner, place, ...row }) => {
      const { stream, events } = group[owner - 1] as Append;
      const { appended, revision, position } = verdicts[owner - 1] as Verdict;
      if (!appended || position === null) return [];
      const later = events.length - place;
      return [toEvent({ ...row, stream, revision: revision - later, position: position - BigInt(later) })];
    });
    const [first] = events;
    const last = events.at(-1);
    // The head of the log was locked: nobody's events are between them.
    if (first && last) for (const tail of tails) tail.hand(first.position, last.position, events);
  }

  const readOne = createBatcher(readStreams, { answerWithinMs: null });

  async function readStreams(reads: { stream: string; from: number }[]): Promise<StoredEvent[][]> {
    const rows = await retryWhileUnavailable(
      () => sql<(StoredRow & { read: bigint })[]>`
        select r.read, e.position, e.stream, e.revision, e.id, e.type, e.schema_version, e.data, e.metadata
          from unnest(${reads.map(({ stream }) => prefix + stream)}::text[], ${reads.map(({ from }) => from)}::integer[])
               with ordinality as r(stream, first, read)
         cross join lateral (select * from log.events where stream = r.stream and revision >= r.first) e
         order by r.read, e.revision`,
    );
    const found: StoredEvent[][] = reads.map(() => []);
    for (const row of rows) found[Number(row.read) - 1]?.push(toEvent(row));
    return found;
  }

  async function head(): Promise<bigint | null> {
    const rows = await retryWhileUnavailable(() => sql<{ position: bigint }[]>`select position from log.head`);
    return rows[0]?.position || null;
  }

  /** The events after `from`, and the head of the log as the same snapshot had it. */
  async function readAfter(from: bigint, limit: number, names: string[]): Promise<Batch> {
    const rows = await sql<((StoredRow | { position: null }) & { head: bigint })[]>`
      select h.position as head, e.position, e.stream, e.revision, e.id, e.type, e.schema_version, e.data, e.metadata
        from log.head h
        left join lateral (
          select * from log.events
           where position > ${from} and position <= h.position and stream ^@ any(${names}::text[])
           order by position limit ${limit}) e on true
       order by e.position`;
    const events = rows.flatMap((row) => (row.position === null ? [] : [toEvent(row)]));
    const full = events.length === limit;
    const position = full ? (events.at(-1) as StoredEvent).position : (rows[0] as { head: bigint }).head;
    return { events, position, caughtUp: !full };
  }

  async function* subscribe({ from, signal, batchSize = 1_000, streams = [''] }: SubscribeOptions): AsyncGenerator<Batch> {
    const names = streams.map((stream) => prefix + stream);
    let position = from ?? 0n;
    let toldCaughtUp = false;
    const tail = createTail({ streams, names, from: position, room: batchSize });
    const { bell } = tail;
    tails.add(tail);
    signal.addEventListener('abort', bell.ring);
    const read = (after: bigint) => readAfter(after, batchSize, names);
    try {
      await listen();
      while (!signal.aborted) {
        const batch = tail.behind() ? await tail.read(position, read).catch(passOverUnavailable) : tail.take();
        if (signal.aborted) return;
        if (batch && (batch.position > position || !toldCaughtUp)) {
          if (batch.position > position) position = batch.position;
          toldCaughtUp = batch.caughtUp;
          yield { ...batch, position };
        }
        if (batch?.caughtUp !== false && !(await bell.wait(POLL_MS))) tail.announce(null, null);
      }
    } finally {
      signal.removeEventListener('abort', bell.ring);
      tails.delete(tail);
    }
  }

  function listen(): Promise<unknown> {
    // `onlisten` is called again after a reconnect: whatever was announced meanwhile is found then.
    listening ??= sql.listen(
      CHANNEL,
      (announcement) => {
        const kinds = announcement.split(' ');
        const position = BigInt(kinds.pop() as string);
        if (appending > 0) heard.push({ kinds, position });
        else announce(kinds, position);
      },
      () => announce(null, null),
    );
    return listening.catch(() => {
      listening = null;
    });
  }

  function announce(kinds: string[] | null, position: bigint | null): void {
    for (const tail of tails) tail.announce(kinds, position);
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
    append,
    read: (stream, from = 0) => readOne({ stream, from }),
    subscribe,
    head,
    async close() {
      const subscription = await listening?.catch(() => null);
      await subscription?.unlisten().catch(() => undefined);
    },
  };
}

function toRow({ id, type, schema_version, data, metadata }: NewEvent, owner: number, place: number): NewRow {
  return { owner, place, id, type, schema_version, data: canonicalize(data) as string, metadata: canonicalize(metadata) as string };
}

/** At most one append to a stream in each: the second of two has to see what came of the first. */
function inGroups(appends: Append[]): Iterable<Append[]> {
  const before = new Map<string, number>();
  const groups = Map.groupBy(appends, ({ stream }) => {
    const group = before.get(stream) ?? 0;
    before.set(stream, group + 1);
    return group;
  });
  return groups.values();
}

/** Repeats a call that is safe to repeat until Postgres answers again. Throws EventStoreUnavailable when it does not. */
async function retryWhileUnavailable<T>(call: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + RETRY_FOR_MS;
  const { promise: answered, resolve: answer } = Promise.withResolvers<T>();
  for (let pause = 50; ; pause = Math.min(pause * 2, 1_000)) {
    try {
      const attempt = call();
      attempt.then(answer, () => undefined);
      return await within(ANSWER_WITHIN_MS, Promise.race([answered, attempt]), EventStoreUnavailable);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (Date.now() + pause > deadline)
        throw new EventStoreUnavailable('Postgres, which holds the event log, does not answer', { cause: error });
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

function passOverUnavailable(error: unknown): null {
  if (!isUnavailable(error)) throw error;
  return null;
}

/** No answer, or a deadlock or a serialization that was lost (class 40): the same call wins the next time. */
function isUnavailable(error: unknown): boolean {
  return (
    error instanceof EventStoreUnavailable || isPostgresUnavailable(error) || String((error as { code?: unknown }).code).startsWith('40')
  );
}
