import { canonicalJson } from '../../../domain/events/canonical-json.ts';
import type { EventMetadata, NewEvent, StoredEvent } from '../../../domain/events/event.ts';
import { toEventId, toUuid } from './uuid.ts';

/** The type of the record that takes the place of a deleted stream. */
const STREAM_DELETED = '$streamDeleted';

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

/** The server keeps the metadata of a stream in a stream of this name. */
export const METADATA_OF = '$$';

/**
 * Returns a record that is not ours as an unreadable event. The event of a deletion, or of metadata,
 * has the name of the stream that it concerns. Returns null for metadata that hides no event.
 */
export function toForeignEvent(record: RecordedEvent, prefix: string): StoredEvent | null {
  const { id, streamId, type, revision, position, data } = record;
  if (position === undefined || !isPosition(position.commit)) return null;
  const isMetadata = streamId.startsWith(METADATA_OF);
  const unreadable = isMetadata
    ? hides(data) && 'the metadata of its stream was changed, so that readers miss events of it'
    : type === STREAM_DELETED
      ? 'its stream was deleted'
      : 'another program wrote it, and Waybill does not read it';
  if (unreadable === false) return null;
  const event = {
    id: toEventId(id),
    type,
    schema_version: 0,
    data: {},
    revision: Number(revision),
  };
  const stream = streamId.slice((isMetadata ? METADATA_OF.length : 0) + prefix.length);
  const metadata = {} as EventMetadata;
  return { ...event, metadata, stream, position: position.commit, unreadable, isForeign: true };
}

/** The fields of metadata by which a server leaves out events, or removes them in a scavenge. */
function hides(data: unknown): boolean {
  const fields = typeof data === 'object' && data !== null ? data : {};
  return ['$tb', '$maxCount', '$maxAge'].some((field) => field in fields);
}

function isOurs(metadata: unknown): metadata is RecordMetadata {
  return (
    typeof metadata === 'object' &&
    metadata !== null &&
    'schema_version' in metadata &&
    'prev_hash' in metadata
  );
}
