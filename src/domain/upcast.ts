import type { StoredEvent } from './event.ts';

/** For a type of event, what lifts data of schema version n to version n + 1, at index n - 1. */
type Upcasters = Record<string, ((data: never) => unknown)[]>;

// Every event is still of its first shape. A new shape adds its upcaster here, which raises the version.
const UPCASTERS: Upcasters = {};

/** The version of the shape in which events of a type are written today. */
export function schemaVersion(type: string): number {
  return (UPCASTERS[type]?.length ?? 0) + 1;
}

/** An event in today's shape, however old it is. Nothing past the edge where events are read sees an old one. */
export function upcast(event: StoredEvent): StoredEvent {
  const upcasters = UPCASTERS[event.type]?.slice(event.schema_version - 1) ?? [];
  if (upcasters.length === 0) return event;
  const data = upcasters.reduce((old: unknown, lift) => lift(old as never), event.data);
  return { ...event, data, schema_version: event.schema_version + upcasters.length };
}
