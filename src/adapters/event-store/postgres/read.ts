/*
 * Reads batches of the log in Postgres. A batch is one row, with one text for each column: the
 * driver takes longer for a thousand rows than for the parse of their events.
 */
import { setImmediate } from 'node:timers/promises';
import type { StoredEvent } from '../../../domain/events/event.ts';
import { HASH_BYTES } from '../../../domain/proof/hash.ts';
import { KEEP_LOG, LogChanged } from '../../../domain/proof/log-changed.ts';
import type { Fragment, Sql } from '../../postgres/connect.ts';
import { decodeBytea, decodeText, splitText } from '../../postgres/long-texts.ts';
import type { EventBatch, SubscribeOptions } from '../port.ts';
import {
  type EventPlace,
  SEPARATOR,
  type StoredRow,
  toAnyEvent,
  withContent,
  withLeaf,
} from './rows.ts';

/** The names of streams of the log itself begin so, after the prefix. */
const OF_THE_LOG = 'log-';

/** What JSON escapes, but the separator. Postgres holds no NUL and no half of a surrogate pair. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must match them
const ESCAPED = /["\\\x01-\x1d\x1f]/;

/** The columns of the one row, in their order; null without an event. */
const COLUMNS = [
  'head',
  'position',
  'stream',
  'revision',
  'id',
  'type',
  'schema_version',
  // These two have no texts for the events that leave them out, and are null without any.
  'data',
  'metadata',
  // The hashes of the leaves, if they are read.
  'leaves',
] as const;

type Columns = Record<(typeof COLUMNS)[number], Buffer | null>;

/**
 * A statement looks through this many positions at most, about a tenth of a second. A subscription
 * to rare events then shows how far it has come, and no statement takes a minute on a large log.
 */
const LOOKED_THROUGH = 100_000n;

interface Wanted {
  limit: number;
  /** With the prefix. A stream's name starts with one of them. */
  names: string[];
  /** As in `SubscribeOptions`. */
  only: SubscribeOptions['only'];
  /** Whether events that Waybill cannot have written are wanted, as unreadable ones. */
  keepsUnreadable: boolean;
}

/** A batch whose events are not parsed yet. */
interface Fetched extends Omit<EventBatch, 'events'> {
  parse(): Promise<StoredEvent[]>;
}

/**
 * Returns a function that reads the events after a position (exclusive), and whether the log had
 * more. While a caller who goes on parses and processes a batch, Postgres makes the next one.
 */
export function createReader(
  sql: Sql,
  prefix: string,
  wanted: Wanted,
): (from: bigint) => Promise<EventBatch> {
  const fetch = (from: bigint) =>
    wanted.only === 'leaves'
      ? fetchLeaves(sql, prefix, wanted, from)
      : fetchRange(sql, prefix, wanted, from, from + LOOKED_THROUGH);
  /** The position from which a caller who goes on reads. */
  let next: bigint | null = null;
  let ahead: Promise<Fetched> | null = null;

  return async (from) => {
    const goesOn = from === next;
    const before = goesOn ? ahead : null;
    next = ahead = null;
    let fetched = await before;
    // The log may have grown since it was fetched.
    if (!fetched || fetched.caughtUp) fetched = await fetch(from);
    const { position, caughtUp, parse } = fetched;
    if (!caughtUp) next = position;
    // Many callers want one batch only.
    if (!caughtUp && goesOn) {
      ahead = fetch(position);
      // It can fail before anything awaits it, which would crash the process.
      ahead.catch(() => undefined);
      await sent();
    }
    return { events: await parse(), position, caughtUp };
  };
}

/** The driver sends a statement in the next turn of the event loop. */
async function sent(): Promise<void> {
  await setImmediate();
  await setImmediate();
}

/**
 * Reads two ranges of positions at once: Postgres hashes the leaves, and one connection keeps only
 * one core busy.
 */
async function fetchLeaves(
  sql: Sql,
  prefix: string,
  wanted: Wanted,
  from: bigint,
): Promise<Fetched> {
  // A range has no more events than positions.
  const half = BigInt(Math.ceil(wanted.limit / 2));
  const middle = from + half;
  const [first, second] = await Promise.all([
    fetchRange(sql, prefix, wanted, from, middle),
    fetchRange(sql, prefix, wanted, middle, middle + half),
  ]);
  // The second snapshot may be the older or the newer one.
  if (first.caughtUp) return first;
  return {
    parse: async () => [...(await first.parse()), ...(await second.parse())],
    position: second.position > middle ? second.position : middle,
    caughtUp: second.caughtUp,
  };
}

/** Fetches the events after `from` up to `to` (inclusive), at most `limit`. */
async function fetchRange(
  sql: Sql,
  prefix: string,
  { limit, names, only, keepsUnreadable }: Wanted,
  from: bigint,
  to: bigint,
): Promise<Fetched> {
  const events = sql`
    select position, stream, revision, id, type, schema_version, data, metadata from log.events
     where position > ${from} and position <= least(h.position, ${to})
       and stream ^@ any(${names}::text[])
     order by position limit ${limit}`;
  const select = async (only: SubscribeOptions['only']) => {
    const [row] = await sql`
      select h.position as head, e.*
        from log.head h
       cross join lateral (
         select string_agg(position::text, ${SEPARATOR}) as position,
                string_agg(stream, ${SEPARATOR}) as stream,
                string_agg(revision::text, ${SEPARATOR}) as revision,
                string_agg(id, ${SEPARATOR}) as id,
                string_agg(type, ${SEPARATOR}) as type,
                string_agg(schema_version::text, ${SEPARATOR}) as schema_version,
                ${only === 'leaves' ? leafColumns(sql, prefix) : contentColumns(sql, prefix, only)}
           from (${events}) found) e`.raw();
    return columnsOf(row as (Buffer | null)[]);
  };
  let columns = await select(only);
  const escaped = only === 'leaves' && hasEscapes(columns);
  if (escaped) columns = await select(undefined);
  const head = BigInt(String(columns.head));
  const places = columns.position ? splitText(columns.position, SEPARATOR) : [];
  const end = head > to ? to : head;
  const isFull = places.length === limit;
  const position = isFull ? BigInt(places.at(-1) as string) : end;
  return { parse, position, caughtUp: !isFull && head <= to };

  async function parse(): Promise<StoredEvent[]> {
    try {
      return eventsOf(columns, places, prefix.length, escaped ? undefined : only, keepsUnreadable);
    } catch (error) {
      if (!keepsUnreadable || !(error instanceof LogChanged)) throw error;
      const rows = await sql<StoredRow[]>`
        select e.* from log.head h cross join lateral (${events}) e
         where e.position <= ${position} order by e.position`;
      return rows.map((row) => toAnyEvent(row, prefix));
    }
  }
}

function contentColumns(sql: Sql, prefix: string, only: 'data' | undefined) {
  return sql`
    string_agg(data, ${SEPARATOR}) as data,
    ${only === 'data' ? ofTheLog(sql, prefix, 'metadata') : sql`string_agg(metadata, ${SEPARATOR})`}
      as metadata,
    null as leaves`;
}

/** The texts of a column, only those of events in streams of the log itself. */
function ofTheLog(sql: Sql, prefix: string, column: 'data' | 'metadata'): Fragment {
  return sql`
    string_agg(${sql(column)}, ${SEPARATOR})
      filter (where stream ^@ ${prefix + OF_THE_LOG}::text)`;
}

/**
 * The hashes of leaves, side by side, as `hashOfLeaf` computes them: data and metadata are stored
 * in their RFC 8785 form. If another program changed that form, the event has another leaf.
 */
function leafColumns(sql: Sql, prefix: string) {
  return sql`
    ${ofTheLog(sql, prefix, 'data')} as data, ${ofTheLog(sql, prefix, 'metadata')} as metadata,
    string_agg(sha256(decode('00', 'hex') || convert_to(
      '{"data":' || data || ',"id":"' || id || '","metadata":' || metadata ||
      ',"revision":' || revision || ',"schema_version":' || schema_version ||
      ',"stream":"' || substr(stream, ${prefix.length + 1}::integer) ||
      '","type":"' || type || '"}', 'UTF8')), ''::bytea) as leaves`;
}

function columnsOf(row: (Buffer | null)[]): Columns {
  return Object.fromEntries(COLUMNS.map((name, i) => [name, row[i]])) as Columns;
}

/** Returns whether JSON writes any name with a backslash. `leafColumns` cannot. */
function hasEscapes({ stream, id, type }: Columns): boolean {
  return [stream, id, type].some(
    (column) => column && decodeText(column, SEPARATOR).some((text) => ESCAPED.test(text)),
  );
}

function eventsOf(
  row: Columns,
  places: string[],
  prefixLength: number,
  only: SubscribeOptions['only'],
  keepsUnreadable: boolean,
): StoredEvent[] {
  if (places.length === 0) return [];
  const split = (column: Buffer | null) => (column ? splitText(column, SEPARATOR) : []);
  const streams = split(row.stream).map((stream) => stream.slice(prefixLength));
  const revisions = split(row.revision);
  const ids = split(row.id);
  const types = split(row.type);
  const versions = split(row.schema_version);
  const datas = textsOf(row.data, only === 'leaves');
  const metadatas = textsOf(row.metadata, only !== undefined);
  const leaves = row.leaves && decodeBytea(row.leaves);
  for (const column of [streams, ids, types, datas, metadatas])
    if (column.length !== places.length)
      throw new LogChanged(
        `An event between the positions ${places[0]} and ${places.at(-1)} has a record separator ` +
          `(U+001E) in a column: it was not written by Waybill. ${KEEP_LOG}`,
      );
  return places.map((position, i): StoredEvent => {
    const place: EventPlace = {
      id: ids[i] as string,
      type: types[i] as string,
      schema_version: Number(versions[i]),
      stream: streams[i] as string,
      revision: Number(revisions[i]),
      position: BigInt(position),
    };
    if (leaves) place.leaf_hash = leaves.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES);
    const [data, metadata] = [datas[i], metadatas[i]];
    const event = withContent(place, data, metadata);
    const isWhole = typeof data === 'string' && typeof metadata === 'string';
    return keepsUnreadable && isWhole ? withLeaf(event, { data, metadata }) : event;
  });

  /** Returns a text for each event; null for those that leave it out. */
  function textsOf(column: Buffer | null, ofTheLogOnly: boolean): (string | null)[] {
    const texts = split(column);
    if (!ofTheLogOnly) return texts;
    const found = texts.values();
    const all = streams.map((stream) =>
      stream.startsWith(OF_THE_LOG) ? (found.next().value as string) : null,
    );
    return [...all, ...found];
  }
}
