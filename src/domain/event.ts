/** What every event carries beside its data. Users see all of it in a history. */
export interface EventMetadata {
  /** Who caused it: `key:key_...`, `cli:USER`, `mover:HOST:PID` or `system`. */
  actor: string;
  account_id: string | null;
  /** The id of the request (or job) that led to it. */
  correlation_id: string;
  /** The id of the event that led to it, where one did. */
  causation_id: string | null;
  /** ISO 8601 UTC, never earlier than that of the event before it in the stream. */
  occurred_at: string;
  /** Lowercase hex SHA-256 of the RFC 8785 form of the event before it in the stream; null for the first. */
  prev_hash: string | null;
}

/** An event as deciders make it and `evolve` reads it. */
export interface Event<Type extends string = string, Data = unknown> {
  type: Type;
  data: Data;
}

/** False for an event that nobody of ours can have written: `evolve` leaves it alone. */
export function hasData({ data }: Event): boolean {
  return typeof data === 'object' && data !== null;
}

/** An event ready to be appended: its place in the stream is the writer's claim, which the append proves. */
export interface NewEvent<E extends Event = Event> {
  /** `evt_` + ULID, strictly increasing within a stream. */
  id: string;
  type: E['type'];
  schema_version: number;
  data: E['data'];
  metadata: EventMetadata;
}

/** An event as the log holds it. */
export interface StoredEvent<E extends Event = Event> extends NewEvent<E> {
  /** Stream name without the installation's prefix: `transfer-txr_...`. */
  stream: string;
  /** Place in the stream, from 0. */
  revision: number;
  /** Place in the whole log; a decimal string in JSON. */
  position: bigint;
}
