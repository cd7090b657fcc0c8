/** The part of every event besides its data. Users see all of it in the history. */
export interface EventMetadata {
  /** Who caused it, such as `key:key_...`. docs/auditors.md lists all kinds. */
  actor: string;
  /** Address of the client whose request caused it. Absent without a request. */
  client_address?: string;
  account_id: string | null;
  /** The id of the request (or job) that led to it; with an Idempotency-Key, of the first one. */
  correlation_id: string;
  /** The id of the event that led to it; null if none did. */
  causation_id: string | null;
  /** ISO 8601 UTC, never earlier than that of the event before it in the stream. */
  occurred_at: string;
  /**
   * SHA-256 of the RFC 8785 form of the event before it in the stream, in lowercase hex; null for
   * the first event.
   */
  prev_hash: string | null;
}

/** An event as `decide` returns it and `evolve` reads it. */
export interface Event<Type extends string = string, Data = unknown> {
  type: Type;
  data: Data;
}

/**
 * Returns the type guard for the events of an aggregate. `types` needs an entry for each event, so
 * the compiler reports a missing one. The guard returns false for a type of a newer version, and
 * for data that is not an object.
 */
export function eventGuard<E extends Event>(
  types: Record<E['type'], unknown>,
): (event: Event) => event is E {
  return (event): event is E =>
    Object.hasOwn(types, event.type) && typeof event.data === 'object' && event.data !== null;
}

/** For the `default` of a switch over all events. The compiler then reports every missing event. */
export function unknownEvent(event: never): never {
  throw new Error(`This version of Waybill does not know the event ${(event as Event).type}`);
}

/** An event ready to be appended. The append checks the revision that the writer assumes. */
export interface NewEvent<E extends Event = Event> {
  /** `evt_` + ULID, strictly increasing within a stream. */
  id: string;
  type: E['type'];
  schema_version: number;
  data: E['data'];
  metadata: EventMetadata;
}

/** An event as the log stores it. */
export interface StoredEvent<E extends Event = Event> extends NewEvent<E> {
  /** Stream name without the installation's prefix: `transfer-txr_...`. */
  stream: string;
  /** Place in the stream, from 0. */
  revision: number;
  /** Place in the whole log; a decimal string in JSON. */
  position: bigint;
  /**
   * The hash of its leaf in the tree (32 bytes), if a reader of leaves, or of unreadable events, has
   * it from the log.
   */
  leaf_hash?: Uint8Array;
  /**
   * Why Waybill cannot have written it. Data and metadata are then empty. Only a reader that asked
   * for such events gets them.
   */
  unreadable?: string;
  /**
   * True if its text is not the RFC 8785 form, in which the engine stores each event. The content
   * is the same for a reader who parses it. Only a reader that asked for unreadable events gets it.
   */
  isRewritten?: true;
  /** True for what is no event: another program, or the server, wrote it under our prefix. */
  isForeign?: true;
}
