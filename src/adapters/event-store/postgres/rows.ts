import type { EventMetadata, StoredEvent } from '../../../domain/events/event.ts';
import { notWritten } from '../../../domain/proof/log-changed.ts';

/** An event as it is written. Its data and metadata are the exact bytes that are hashed. */
export interface Row {
  id: string;
  type: string;
  schema_version: number;
  data: string;
  metadata: string;
}

export interface StoredRow extends Row {
  position: bigint;
  stream: string;
  revision: number;
}

/** An event without its content. */
export type EventPlace = Omit<StoredEvent, 'data' | 'metadata'>;

/** Stands for what an event leaves out. */
const LEFT_OUT = Object.freeze({});

/**
 * Returns the event of a row. Its stream loses the prefix of the installation. Throws LogChanged if
 * Waybill cannot have written the row.
 */
export function toEvent(row: StoredRow, prefix: string): StoredEvent {
  const { id, type, schema_version, revision, position } = row;
  const stream = row.stream.slice(prefix.length);
  const place = { id, type, schema_version, stream, revision, position };
  return withContent(place, row.data, row.metadata);
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
  if (event.data === undefined) throw notWritten(place, 'its data is no JSON');
  if (typeof event.metadata !== 'object' || event.metadata === null)
    throw notWritten(place, 'its metadata is no JSON object');
  return event;
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
