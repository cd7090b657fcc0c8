import type { StoredEvent } from './event.ts';

const KINDS = [
  'transfer',
  'batch',
  'flow',
  'endpoint',
  'endpoint_name',
  'key',
  'webhook',
  'access',
  'log',
] as const;

/** Every log begins with this stream of one event. */
const LOG = { stream: 'log', type: 'log.opened' };

/** The streams that the log keeps of itself, beside `log`. */
export const SIGNING_KEYS = 'log-keys';
export const CHECKPOINTS = 'log-checkpoints';
export const RETENTION = 'log-retention';

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

/** Returns the id of the aggregate of an event, from the name of its stream: `txr_...`. */
export function aggregateIdOf({ stream }: Pick<StoredEvent, 'stream'>): string {
  return parseStream(stream).id;
}

/** Returns whether a log may have a stream of this name. */
export function isStreamName(name: string): boolean {
  const { kind, id } = parseStream(name);
  return kind === undefined ? name === LOG.stream : id !== '';
}

/** The field of an event's data that repeats the id in the name of its stream, if any does. */
const ID_FIELDS: Record<StreamKind, string | null> = {
  transfer: 'transfer_id',
  batch: 'batch_id',
  flow: 'flow_id',
  endpoint: 'endpoint_id',
  endpoint_name: 'name',
  key: 'key_id',
  webhook: 'webhook_id',
  access: null,
  log: null,
};

/** Returns whether an event is the first one of every log. */
export function isFirstOfLog({ stream, revision }: Pick<StoredEvent, 'stream' | 'revision'>) {
  return stream === LOG.stream && revision === 0;
}

function belongs(type: string, stream: string, revision: number): boolean {
  const { kind } = parseStream(stream);
  if (kind === undefined) return stream === LOG.stream && type === LOG.type && revision === 0;
  if (kind === 'log' && ![SIGNING_KEYS, CHECKPOINTS, RETENTION].includes(stream)) return false;
  return type.startsWith(`${kind}.`);
}

/**
 * Returns why an event does not belong into the stream that it is in; null if it does. Its type
 * begins with the kind of the stream, and its data repeats the id. The first event always has it.
 */
export function objectionTo({
  stream,
  revision,
  type,
  data,
}: Pick<StoredEvent, 'stream' | 'revision' | 'type' | 'data'>): string | null {
  const { kind, id } = parseStream(stream);
  if (!belongs(type, stream, revision))
    return `${type} is no event of the stream ${stream}: the type or the stream was changed`;
  const field = kind === undefined ? null : ID_FIELDS[kind];
  if (field === null) return null;
  const found = (data as Record<string, unknown> | null)?.[field];
  if (found === id || (found === undefined && revision > 0)) return null;
  return `its ${field} is ${JSON.stringify(found) ?? 'missing'}: the data or the stream was changed`;
}
