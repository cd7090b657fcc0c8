/*
 * Appends to the log in Postgres.
 *
 * Each process makes one call of `log.append` at a time. Appends that arrive meanwhile share the
 * next call, at most 64 of them. A call names each stream once, so two appends to one stream go
 * into two calls. Rows beside the appends are written in the statement of the call.
 *
 * What can go wrong:
 *
 * - The answer to an append is lost. The call is repeated, for up to 10 s (`retry.ts`), or for
 *   less if the call before it got no answer (`Left`).
 *   `log.append` returns the first result for the same ids at the same revisions, so a repetition
 *   is safe.
 * - Postgres rejects one append of a call, or a row beside it. The appends are then made one by
 *   one.
 * - The condition of an append does not hold. It then expects a revision that no stream has, so
 *   `log.append` rejects it alone. But a lost answer may have said that it was appended: the
 *   revision that was found tells.
 * - Postgres failed over to a standby that lacks the last commits. The stream may have another
 *   event at the expected revision than the writer remembers. `log.append` compares the hash of its
 *   last event with the `prev_hash` of the append, and rejects the append if they differ. A copy of
 *   a log keeps the chain as it is.
 * - The disk of Postgres has no room. All appends of the call fail at once, because those that
 *   wait behind a repeated call would wait for minutes.
 * - The log was moved to the other engine, and a process that stood still meanwhile appends here.
 *   The log is closed, and `log.append` refuses.
 */
import { createBatcher, type Left } from '../../../concurrency/batcher.ts';
import { canonicalJson } from '../../../domain/events/canonical-json.ts';
import type { NewEvent, StoredEvent } from '../../../domain/events/event.ts';
import type { Fragment, Sql } from '../../postgres/connect.ts';
import { jsonArray } from '../../postgres/json-array.ts';
import {
  type AppendOptions,
  type AppendResult,
  type Beside,
  ConditionFailed,
  EventStoreFull,
  EventStoreUnavailable,
  type ExpectedRevision,
  RevisionConflict,
} from '../port.ts';
import { RETRY_FOR_MS, retryWhileUnavailable } from './retry.ts';
import { type Row, toEvent } from './rows.ts';
import type { Subscriptions } from './subscribe.ts';

const APPENDS_PER_CALL = 64;
/** Expected by appends whose condition does not hold. Of no stream, so not -1 either. */
const NO_REVISION = -2;
/** Found by appends whose hash chain continues another event than the stream has. */
const OTHER_EVENT = -3;
/** `log.append` raises it. */
const LOG_CLOSED = 'WB001';

interface Append extends AppendOptions {
  stream: string;
  /** -1 if there must be no stream. */
  expected: number;
  events: NewEvent[];
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

interface NewRow extends Row {
  /** Number of its append in the call, and its place in that append; both from 1. */
  owner: number;
  place: number;
}

export interface AppenderOptions {
  sql: Sql;
  prefix: string;
  isCopy: boolean;
  subscriptions: Subscriptions;
}

/**
 * Creates the function that appends to a stream: `EventStore.appendWith`. `fullSince` is that of the
 * port.
 */
export function createAppend({ sql, prefix, isCopy, subscriptions }: AppenderOptions) {
  let full: number | null = null;

  /**
   * Makes one call at a time. Appends that arrive meanwhile share the next call and its one flush
   * to disk.
   */
  const appendOne = createBatcher(appendAll, { limit: APPENDS_PER_CALL, answerWithinMs: null });

  async function append(
    stream: string,
    expected: ExpectedRevision,
    events: NewEvent[],
    { beside, condition }: AppendOptions = {},
  ): Promise<AppendResult> {
    if (events.length === 0) throw new RangeError(`${stream}: an append needs at least one event`);
    const outcome = await appendOne({
      stream: prefix + stream,
      expected: expected === 'no_stream' ? -1 : expected,
      events,
      beside,
      condition,
    });
    if ('error' in outcome) throw outcome.error;
    const { revision, position, appended: isNew } = outcome;
    if (position !== null) return { revision, position, isNew };
    if (revision === OTHER_EVENT) throw new RevisionConflict(stream, expected, null);
    const found = revision < 0 ? 'no_stream' : revision;
    if (condition === undefined) throw new RevisionConflict(stream, expected, found);
    if (found === expected)
      throw new ConditionFailed(`${stream}: the condition of the append does not hold`);
    // Another writer was first, or this append was, before its answer was lost.
    return append(stream, expected, events, { beside });
  }

  async function appendAll(appends: Append[], left: Left): Promise<Outcome[]> {
    const outcomes = new Map<Append, Outcome>();
    for (const group of groupsOf(appends)) {
      const results = await appendGroup(group, left);
      for (const [i, member] of group.entries()) outcomes.set(member, results[i] as Outcome);
    }
    return appends.map((member) => outcomes.get(member) as Outcome);
  }

  /** Throws EventStoreUnavailable for the whole group. */
  async function appendGroup(group: Append[], left: Left): Promise<Outcome[]> {
    try {
      const verdicts = await callAppend(group, left);
      full = null;
      return verdicts;
    } catch (error) {
      if (error instanceof EventStoreFull) full = performance.now();
      if (error instanceof EventStoreUnavailable) throw error;
      if (group.length === 1) return [{ error }];
      // One append that Postgres rejects must not fail the others.
      const outcomes: Outcome[] = [];
      for (const member of group) outcomes.push(...(await appendGroup([member], left)));
      return outcomes;
    }
  }

  async function callAppend(group: Append[], left: Left): Promise<Verdict[]> {
    const rows = group.flatMap(({ events }, i) =>
      events.map((event, n) => toRow(event, i + 1, n + 1)),
    );
    const besides = besidesOf(group);
    return subscriptions.duringAppend(async () => {
      const verdicts = await retryWhileUnavailable(() => {
        const call = sql`
          log.append(
            ${group.map((member) => member.stream)}::text[],
            ${expectedBy(sql, group)},
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
            ${isCopy},
            ${group.map((member) => (isCopy ? null : prevHashOf(member)))}::text[])`;
        return besides.size === 0
          ? sql<Verdict[]>`select revision, position, appended from ${call}`
          : sql<Verdict[]>`
              with appended as materialized (
                select * from ${call} with ordinality as a(revision, position, appended, nr)
              ) ${writesOf(sql, besides)}
              select revision, position, appended from appended order by nr`;
      }, left(RETRY_FOR_MS)).catch(refusedIfClosed);
      subscriptions.add(() => appendedEvents(group, verdicts, rows, prefix));
      return verdicts;
    });
  }

  return { append, fullSince: () => full };
}

/** Returns the events of a call that are new in the log. */
function appendedEvents(
  group: Append[],
  verdicts: Verdict[],
  rows: NewRow[],
  prefix: string,
): StoredEvent[] {
  return rows.flatMap(({ owner, place, ...row }) => {
    const { stream, events } = group[owner - 1] as Append;
    const { appended, revision, position } = verdicts[owner - 1] as Verdict;
    if (!appended || position === null) return [];
    const later = events.length - place;
    const stored = {
      ...row,
      stream,
      revision: revision - later,
      position: position - BigInt(later),
    };
    return [toEvent(stored, prefix)];
  });
}

type Besides = Map<Beside['write'], { nr: number; item: unknown }[]>;

/** Returns the rows that a call writes beside its events, by what writes them. */
function besidesOf(group: Append[]): Besides {
  const besides: Besides = new Map();
  for (const [i, { beside }] of group.entries()) {
    if (beside === undefined) continue;
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

/** Returns the revisions that the appends of a call expect, as an expression. */
function expectedBy(sql: Sql, group: Append[]): Fragment {
  const expected = group.map((member) => member.expected);
  const conditions = group.flatMap(({ condition }) => condition ?? []);
  const [condition] = conditions;
  if (condition === undefined) return sql`${expected}::integer[]`;
  if (conditions.some(({ read }) => read !== condition.read))
    throw new TypeError('the conditions of the appends of a call must read the same');
  return sql`
    (select array_agg(
              case when c.value is null or c.value = (${condition.read(sql)})
                   then c.expected else ${NO_REVISION} end
              order by c.nr)
       from unnest(${expected}::integer[],
                   ${group.map((member) => member.condition?.value ?? null)}::text[])
            with ordinality as c(expected, value, nr))`;
}

/** Returns the hash of the event that an append continues; null if it begins a stream. */
function prevHashOf({ expected, events }: Append): string | null {
  return expected < 0 ? null : (events[0]?.metadata.prev_hash ?? null);
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

/** A client repeats its request, and finds a process that appends to the new log. */
function refusedIfClosed(error: unknown): never {
  if ((error as { code?: unknown }).code !== LOG_CLOSED) throw error;
  throw new EventStoreUnavailable(
    'The log in Postgres is closed: the tables of this database follow the log in an EventStoreDB, ' +
      'to which it was moved',
    { cause: error },
  );
}
