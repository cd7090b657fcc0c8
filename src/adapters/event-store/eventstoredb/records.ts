import { canonicalJson } from '../../../domain/events/canonical-json.ts';
import type { EventMetadata, NewEvent, StoredEvent } from '../../../domain/events/event.ts';
import { toEventId, toUuid } from './uuid.ts';

/**
 * Custom metadata of a record: the event's, plus the schema version. The store has no field for it.
 */
type RecordMetadata = EventMetadata & { schema_version: number };

/** An event as it is sent: its content is JSON. */
export interface NewRecord {
  /** A UUID. */
  id: string;
  type: string;
  data: string;
  metadata: string;
}

/** A record as it is read. */
export interface RecordedEvent {
  id: string;
  type: string;
  streamId: string;
  revision: bigint;
  position?: { commit: bigint } | undefined;
  data: unknown;
  metadata?: unknown;
}

/**
 * Converts an event to the record that is appended. Readers hash the RFC 8785 form of an event, so
 * it is written in that form. Throws TypeError if JSON can't hold its data.
 */
export function toRecord({ id, type, schema_version, data, metadata }: NewEvent): NewRecord {
  const json = canonicalJson(data);
  if (json === undefined) throw new TypeError(`${type} ${id}: its data can't be written as JSON`);
  const recordMetadata: RecordMetadata = { ...metadata, schema_version };
  return { id: toUuid(id), type, data: json, metadata: canonicalJson(recordMetadata) };
}

/**
 * The lowest number that no log can have as a position. On the server, positions are signed 64-bit
 * numbers. The server sends "none" as -1, which arrives as 2^64 - 1.
 */
const BEYOND_EVERY_LOG = 2n ** 63n;

export function isPosition(value: bigint): boolean {
  return value < BEYOND_EVERY_LOG;
}

/**
 * Returns the event in a record; null for a record that is not ours. Those are system records,
 * tombstones, and records that other programs wrote under our prefix.
 */
export function toStoredEvent(record: RecordedEvent, prefix: string): StoredEvent | null {
  const { type, data, position, metadata } = record;
  if (!isOurs(metadata) || position === undefined || !isPosition(position.commit)) return null;
  const { schema_version, ...eventMetadata } = metadata;
  return {
    id: toEventId(record.id),
    type,
    schema_version,
    data,
    metadata: eventMetadata,
    stream: record.streamId.slice(prefix.length),
    revision: Number(record.revision),
    position: position.commit,
  };
}

function isOurs(metadata: unknown): metadata is RecordMetadata {
  return (
    typeof metadata === 'object' &&
    metadata !== null &&
    'schema_version' in metadata &&
    'prev_hash' in metadata
  );
}
