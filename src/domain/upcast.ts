import type { StoredEvent } from './event.ts';

/** For a type of event, what lifts data of schema version n to version n + 1, at index n - 1. */
type Upcasters = Record<string, ((data: never) => unknown)[]>;

// Every event is still of its first shape. A new shape raises the version and adds its upcaster here.
const UPCASTERS: Upcasters = {};

/** An event in today's shape, however old it is. Nothing past the edge where events are read sees an old one. */
export function upcast(event: StoredEvent): StoredEvent {
  const upcasters = UPCASTERS[event.type]?.slice(event.schema_version - 1) ?? [];
  if (upcasters.length === 0) return event;
  const data = upcasters.reduce((old: unknown, lift) => lift(old as never), event.data);
  return { ...event, data, schema_version: event.schema_version + upcasters.length };
}
