/*
 * Reads batches of the log in Postgres. A batch is one row, with one text for each column: the
 * driver takes longer for a thousand rows than for the parse of their events.
 */
import type { StoredEvent } from '../../../domain/events/event.ts';
import { HASH_BYTES } from '../../../domain/proof/hash.ts';
import { KEEP_LOG, LogChanged } from '../../../domain/proof/log-changed.ts';
import type { Fragment, Sql } from '../../postgres/connect.ts';
import { decodeBytea, decodeText, splitText } from '../../postgres/long-texts.ts';
import type { EventBatch, SubscribeOptions } from '../port.ts';
import { type EventPlace, SEPARATOR, type StoredRow, toAnyEvent, withContent } from './rows.ts';

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
  /** Exclusive. */
  from: bigint;
  limit: number;
  /** With the prefix. A stream's name starts with one of them. */
  names: string[];
  /** As in `SubscribeOptions`. */
  only: SubscribeOptions['only'];
  /** Whether events that Waybill cannot have written are wanted, as unreadable ones. */
  keepsUnreadable: boolean;
}

/** Returns the events after a position, and the head of the log in the same snapshot. */
export async function readAfter(sql: Sql, prefix: string, wanted: Wanted): Promise<EventBatch> {
  if (wanted.only === 'leaves') return readLeaves(sql, prefix, wanted);
  return readRange(sql, prefix, wanted, wanted.from + LOOKED_THROUGH);
}

/**
 * Reads two ranges of positions at once: Postgres hashes the leaves, and one connection keeps only
 * one core busy.
 */
async function readLeaves(sql: Sql, prefix: string, wanted: Wanted): Promise<EventBatch> {
  // A range has no more events than positions.
  const half = BigInt(Math.ceil(wanted.limit / 2));
  const middle = wanted.from + half;
  const [first, second] = await Promise.all([
    readRange(sql, prefix, wanted, middle),
    readRange(sql, prefix, { ...wanted, from: middle }, middle + half),
  ]);
  // The second snapshot may be the older or the newer one.
  if (first.caughtUp) return first;
  return {
    events: [...first.events, ...second.events],
    position: second.position > middle ? second.position : middle,
    caughtUp: second.caughtUp,
  };
}

/** Returns the events after `from` up to `to` (inclusive), at most `limit`. */
async function readRange(
  sql: Sql,
  prefix: string,
  wanted: Wanted,
  to: bigint,
): Promise<EventBatch> {
  const { from, limit, names, only } = wanted;
  const events = sql`
    select position, stream, revision, id, type, schema_version, data, metadata from log.events
     where position > ${from} and position <= least(h.position, ${to})
       and stream ^@ any(${names}::text[])
     order by position limit ${limit}`;
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
  const columns = columnsOf(row as (Buffer | null)[]);
  if (only === 'leaves' && hasEscapes(columns))
    return readRange(sql, prefix, { ...wanted, only: undefined }, to);
  const found = await eventsIn(columns);
  if (found.length === limit)
    return { events: found, position: (found.at(-1) as StoredEvent).position, caughtUp: false };
  const head = BigInt(String(columns.head));
  if (head > to) return { events: found, position: to, caughtUp: false };
  return { events: found, position: head, caughtUp: true };

  async function eventsIn(columns: Columns): Promise<StoredEvent[]> {
    try {
      return eventsOf(columns, prefix.length, only);
    } catch (error) {
      if (!wanted.keepsUnreadable || !(error instanceof LogChanged)) throw error;
      const rows = await sql<StoredRow[]>`
        select e.* from log.head h cross join lateral (${events}) e order by e.position`;
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
  prefixLength: number,
  only: SubscribeOptions['only'],
): StoredEvent[] {
  if (row.position === null) return [];
  const split = (column: Buffer | null) => (column ? splitText(column, SEPARATOR) : []);
  const streams = split(row.stream).map((stream) => stream.slice(prefixLength));
  const revisions = split(row.revision);
  const ids = split(row.id);
  const types = split(row.type);
  const versions = split(row.schema_version);
  const datas = textsOf(row.data, only === 'leaves');
  const metadatas = textsOf(row.metadata, only !== undefined);
  const leaves = row.leaves && decodeBytea(row.leaves);
  const places = split(row.position);
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
    return withContent(place, datas[i], metadatas[i]);
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
