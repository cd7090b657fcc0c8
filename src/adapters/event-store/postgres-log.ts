import canonicalize from 'canonicalize';
import { createBatcher } from '../../batcher.ts';
import { type Bell, createBell } from '../../bell.ts';
import type { EventMetadata, NewEvent, StoredEvent } from '../../domain/event.ts';
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

const CHANNEL = 'waybill_log';
const APPENDS_PER_CALL = 64;
/** The notification is a hint that may be lost with a connection; this finds what it did not announce. */
const POLL_MS = 1_000;
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
}

/** An append that Postgres refuses by itself has an error of its own. */
type Outcome = Verdict | { error: unknown };

interface Row {
  head: bigint;
  position: bigint | null;
  stream: string;
  revision: number;
  id: string;
  type: string;
  schema_version: number;
  data: string;
  metadata: string;
}

/** The event store in the installation's own Postgres, in the schema `log`. */
export function createPostgresLog({ sql, prefix }: { sql: Sql; prefix: string }): EventStore {
  /** Of each subscription, with the starts of the names that it reads. */
  const bells = new Map<Bell, string[]>();
  let listening: Promise<{ unlisten(): Promise<void> }> | null = null;

  /** One call at a time: what arrives meanwhile shares the next one, and its one flush to disk. */
  const appendOne = createBatcher(appendAll, APPENDS_PER_CALL);

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
    const events = group.flatMap((member, i) => member.events.map((event, n) => ({ event, owner: i + 1, place: n + 1 })));
    return retryWhileUnavailable(
      () => sql<Verdict[]>`
        select revision, position from log.append(
          ${group.map((member) => member.stream)}::text[],
          ${group.map((member) => (member.expected === 'no_stream' ? -1 : member.expected))}::integer[],
          ${group.map((member) => member.events.length)}::integer[],
          ${events.map(({ owner }) => owner)}::integer[],
          ${events.map(({ place }) => place)}::integer[],
          ${events.map(({ event }) => event.id)}::text[],
          ${events.map(({ event }) => event.type)}::text[],
          ${events.map(({ event }) => event.schema_version)}::integer[],
          ${events.map(({ event }) => canonicalize(event.data) as string)}::text[],
          ${events.map(({ event }) => canonicalize(event.metadata) as string)}::text[])`,
    );
  }

  const readOne = createBatcher(readStreams);

  async function readStreams(reads: { stream: string; from: number }[]): Promise<StoredEvent[][]> {
    const rows = await retryWhileUnavailable(
      () => sql<(Row & { read: bigint })[]>`
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
    const rows = await sql<Row[]>`
      select h.position as head, e.position, e.stream, e.revision, e.id, e.type, e.schema_version, e.data, e.metadata
        from log.head h
        left join lateral (
          select * from log.events
           where position > ${from} and position <= h.position and stream ^@ any(${names}::text[])
           order by position limit ${limit}) e on true
       order by e.position`;
    const events = rows.filter((row) => row.position !== null).map(toEvent);
    const full = events.length === limit;
    const position = full ? (events.at(-1) as StoredEvent).position : (rows[0] as Row).head;
    return { events, position, caughtUp: !full };
  }

  async function* subscribe({ from, signal, batchSize = 1_000, streams = [''] }: SubscribeOptions): AsyncGenerator<Batch> {
    const names = streams.map((stream) => prefix + stream);
    const bell = createBell();
    let position = from ?? 0n;
    let toldCaughtUp = false;
    bells.set(bell, names);
    signal.addEventListener('abort', bell.ring);
    try {
      await listen();
      while (!signal.aborted) {
        const batch = await readAfter(position, batchSize, names).catch((error: unknown) => {
          if (!isUnavailable(error)) throw error;
          return null;
        });
        if (signal.aborted) return;
        if (batch && (batch.position > position || !toldCaughtUp)) {
          if (batch.position > position) position = batch.position;
          toldCaughtUp = batch.caughtUp;
          yield { ...batch, position };
        }
        if (batch?.caughtUp !== false) await bell.wait(POLL_MS);
      }
    } finally {
      signal.removeEventListener('abort', bell.ring);
      bells.delete(bell);
    }
  }

  function listen(): Promise<unknown> {
    const wake = (kinds: string[]) => {
      for (const [bell, names] of bells) {
        if (names.some((name) => kinds.some((kind) => name.startsWith(kind) || kind.startsWith(name)))) bell.ring();
      }
    };
    // `onlisten` is called again after a reconnect: whatever was announced meanwhile is found then.
    listening ??= sql.listen(
      CHANNEL,
      (kinds) => wake(kinds.split(' ')),
      () => wake(['']),
    );
    return listening.catch(() => {
      listening = null;
    });
  }

  function toEvent(row: Row): StoredEvent {
    return {
      id: row.id,
      type: row.type,
      schema_version: row.schema_version,
      data: JSON.parse(row.data),
      metadata: JSON.parse(row.metadata) as EventMetadata,
      stream: row.stream.slice(prefix.length),
      revision: row.revision,
      position: row.position as bigint,
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
  for (let pause = 50; ; pause = Math.min(pause * 2, 1_000)) {
    try {
      return await call();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (Date.now() + pause > deadline)
        throw new EventStoreUnavailable('Postgres, which holds the event log, does not answer', { cause: error });
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

/** Also a deadlock or a serialization that was lost (class 40): the same call wins the next time. */
function isUnavailable(error: unknown): boolean {
  return isPostgresUnavailable(error) || String((error as { code?: unknown }).code).startsWith('40');
}
