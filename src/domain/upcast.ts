import type { StoredEvent } from './event.ts';

/** For a type of event, what lifts data of schema version n to version n + 1, at index n - 1. */
type Upcasters = Record<string, ((data: never) => unknown)[]>;

// Every event is still of its first shape. A new shape raises the version and adds its upcaster here.
const UPCASTERS: Upcasters = {};

/** An event in today's shape, however old it is. Nothing past the edge where events are read sees an old one. */
export function upcast(event: StoredEvent): StoredEvent {
  const upcasters = UPCASTERS[event.type]?.slice(event.schema_version - 1) ?? [];
  return upcasters.reduce((old, lift) => ({ ...old, data: lift(old.data as never), schema_version: old.schema_version + 1 }), event);
}
