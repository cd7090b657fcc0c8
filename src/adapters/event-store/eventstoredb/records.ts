import { type AllStreamRecordedEvent, type JSONEventData, jsonEvent, type RecordedEvent } from '@eventstore/db-client';
import { ulidToUUID, uuidToULID } from 'ulid';
import type { EventMetadata, NewEvent, StoredEvent } from '../../../domain/event.ts';

/** Custom metadata of a record: ours, and the schema version that the store has no field for. */
type RecordMetadata = EventMetadata & { schema_version: number };

/**
 * An event as the client takes it. Throws TypeError for data that JSON can't hold: inside the client
 * that would be a rejection nobody can catch, which ends the process.
 */
export function toRecord({ id, type, schema_version, data, metadata }: NewEvent): JSONEventData {
  const recordMetadata: RecordMetadata = { ...metadata, schema_version };
  if (JSON.stringify(data) === undefined || JSON.stringify(recordMetadata) === undefined) {
    throw new TypeError(`${type} ${id}: its data can't be written as JSON`);
  }
  return jsonEvent({
    id: ulidToUUID(id.slice('evt_'.length)).toLowerCase(),
    type,
    data: data as JSONEventData['data'],
    metadata: recordMetadata,
  });
}

/** The event in a record; null for what is not ours: system records, tombstones, what others wrote under our prefix. */
export function toStoredEvent(record: RecordedEvent | AllStreamRecordedEvent, prefix: string): StoredEvent | null {
  const { type, data, position } = record;
  const metadata: unknown = record.metadata;
  if (!isOurs(metadata) || position === undefined) return null;
  const { schema_version, ...eventMetadata } = metadata;
  return {
    id: `evt_${uuidToULID(record.id)}`,
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
  return typeof metadata === 'object' && metadata !== null && 'schema_version' in metadata && 'prev_hash' in metadata;
}
