import type { EventMetadata, StoredEvent } from '../../../domain/event.ts';

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

/** Returns the event of a row. Its stream loses the prefix of the installation. */
export function toEvent(row: StoredRow, prefix: string): StoredEvent {
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
