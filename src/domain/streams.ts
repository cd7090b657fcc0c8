const KINDS = ['transfer', 'endpoint', 'endpoint_name', 'key', 'webhook', 'access'] as const;

/**
 * The kinds of aggregates. Each aggregate has a stream of events. The streams `access-acs_...` have
 * no aggregate: each has what one process recorded.
 */
export type StreamKind = (typeof KINDS)[number];

/** Returns the name of the stream of an aggregate: `transfer-txr_...`, `endpoint_name-archive`. */
export function streamName(kind: StreamKind, id: string): string {
  return streamPrefix(kind) + id;
}

/** Returns the start of the names of all streams of a kind. Subscriptions filter by it. */
export function streamPrefix(kind: StreamKind): string {
  return `${kind}-`;
}

/**
 * Splits the name of a stream. `kind` is undefined for a stream that belongs to no aggregate, such
 * as `log`.
 */
export function parseStream(name: string): { kind: StreamKind | undefined; id: string } {
  const end = name.indexOf('-');
  return {
    kind: KINDS.find((kind) => kind.length === end && name.startsWith(kind)),
    id: name.slice(end + 1),
  };
}
