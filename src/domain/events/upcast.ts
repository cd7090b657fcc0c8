import { storableData } from '../storable.ts';
import type { NewEvent } from './event.ts';

/** Upcasters by event type. Index n - 1 converts data of schema version n to version n + 1. */
type Upcasters = Record<string, ((data: never) => unknown)[]>;

// To change the shape of an event, add an upcaster here: that raises the version.
const UPCASTERS: Upcasters = {
  'transfer.created': [(data: object) => ({ ...data, retry_of: null })],
};

/** Events that quote servers. Older versions wrote a server's text as it came, NULs included. */
const QUOTING = new Set([
  'batch.listed',
  'endpoint.connectivity_lost',
  'endpoint.host_key_announced',
  'flow.files_skipped',
  'flow.run_empty',
  'flow.run_failed',
  'transfer.failed',
  'transfer.marker_failed',
  'transfer.queued',
  'transfer.source_kept',
]);

/** Returns the schema version with which events of a type are written now. */
export function schemaVersion(type: string): number {
  return (UPCASTERS[type]?.length ?? 0) + 1;
}

/**
 * Returns the event in its current shape. Code that reads events calls this first, so deciders and
 * projections never see an old shape.
 */
export function upcast<E extends NewEvent>(event: E): E {
  const upcasters = UPCASTERS[event.type]?.slice(event.schema_version - 1) ?? [];
  const stored = QUOTING.has(event.type) ? storableData(event.data) : event.data;
  if (upcasters.length === 0 && stored === event.data) return event;
  const data = upcasters.reduce((old: unknown, lift) => lift(old as never), stored);
  return { ...event, data, schema_version: event.schema_version + upcasters.length };
}
