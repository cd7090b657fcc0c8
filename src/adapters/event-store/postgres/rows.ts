import { canonicalJson } from '../../../domain/events/canonical-json.ts';
import type { EventMetadata, StoredEvent } from '../../../domain/events/event.ts';
import { hashOfLeafTexts } from '../../../domain/proof/leaf.ts';
import { notWritten } from '../../../domain/proof/log-changed.ts';

/** An event as it is written. Its data and metadata are the exact bytes that are hashed. */
export interface Row {
  id: string;
  type: string;
  schema_version: number;
  data: string;
  metadata: string;
}

type Texts = Pick<Row, 'data' | 'metadata'>;

export interface StoredRow extends Row {
  position: bigint;
  stream: string;
  revision: number;
}

/** The record separator. No JSON has it as it is, and no name of ours has it. */
export const SEPARATOR = '\x1e';

/** An event without its content. */
export type EventPlace = Omit<StoredEvent, 'data' | 'metadata'>;

/** Stands for what an event leaves out. */
const LEFT_OUT = Object.freeze({});

/**
 * Returns the event of a row. Its stream loses the prefix of the installation. Throws LogChanged if
 * Waybill cannot have written the row.
 */
export function toEvent(row: StoredRow, prefix: string): StoredEvent {
  return withContent(placeOf(row, prefix), row.data, row.metadata);
}

/** As `toEvent`, but returns an event that is `unreadable` if Waybill cannot have written the row. */
export function toAnyEvent(row: StoredRow, prefix: string): StoredEvent {
  const place = placeOf(row, prefix);
  // A column that lost its constraint may hold null.
  const [data, metadata] = [parse(row.data ?? ''), parse(row.metadata ?? '')];
  const names = [place.stream, place.id, place.type];
  const unreadable = names.some((name) => name.includes(SEPARATOR))
    ? 'its stream, id or type has a record separator (U+001E)'
    : problemOf(data, metadata);
  if (unreadable !== null)
    return { ...place, data: LEFT_OUT, metadata: LEFT_OUT as EventMetadata, unreadable };
  return withLeaf({ ...place, data, metadata: metadata as EventMetadata }, row);
}

/**
 * Adds the hash of the leaf of an event, or marks the event if its texts are not those that Waybill
 * writes for this content.
 */
export function withLeaf(event: StoredEvent, texts: Texts): StoredEvent {
  try {
    const isAsWritten =
      texts.data === canonicalJson(event.data) && texts.metadata === canonicalJson(event.metadata);
    if (isAsWritten) event.leaf_hash = hashOfLeafTexts(event, texts);
    else event.isRewritten = true;
  } catch {
    // It has no RFC 8785 form: its reader finds out, who hashes it.
  }
  return event;
}

function placeOf(row: StoredRow, prefix: string): EventPlace {
  const { id, type, schema_version, revision, position } = row;
  return { id, type, schema_version, stream: row.stream.slice(prefix.length), revision, position };
}

/** Adds data and metadata, JSON texts; null leaves them out. Throws LogChanged as `toEvent`. */
export function withContent(
  place: EventPlace,
  data: string | null | undefined,
  metadata: string | null | undefined,
): StoredEvent {
  const event = place as StoredEvent;
  event.data = parse(data) as StoredEvent['data'];
  event.metadata = parse(metadata) as EventMetadata;
  const problem = problemOf(event.data, event.metadata);
  if (problem !== null) throw notWritten(place, problem);
  return event;
}

/** Returns why Waybill cannot have written this content; null if it can. */
function problemOf(data: unknown, metadata: unknown): string | null {
  if (data === undefined) return 'its data is no JSON';
  return typeof metadata === 'object' && metadata !== null
    ? null
    : 'its metadata is no JSON object';
}

/** Returns undefined for a text that is no JSON. */
function parse(text: string | null | undefined): unknown {
  if (text === null) return LEFT_OUT;
  try {
    return JSON.parse(text as string);
  } catch {
    return undefined;
  }
}
