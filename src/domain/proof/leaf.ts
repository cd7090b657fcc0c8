import canonicalize from 'canonicalize';
import type { StoredEvent } from '../event.ts';

/** What a leaf of the tree says about an event. */
export type LeafContent = Omit<StoredEvent, 'position'>;

/**
 * Returns the text of an event's leaf: the RFC 8785 form of the event as it is stored, not upcast,
 * with its place in its stream. It leaves out the position, so a copy of the log has the same tree.
 */
export function leafOf(event: StoredEvent): string {
  const { data, id, metadata, revision, schema_version, stream, type } = event;
  const content = { data, id, metadata, revision, schema_version, stream, type };
  // Keys in order are the only difference between the two, and the embedded log stores them in
  // order. This way is ten times faster.
  return isInOrder(content) ? JSON.stringify(content) : (canonicalize(content) as string);
}

/** Returns whether the keys of an object, and of all objects in it, rise by their UTF-16 units. */
function isInOrder(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isInOrder);
  let last = '';
  for (const [key, member] of Object.entries(value)) {
    if (key < last || !isInOrder(member)) return false;
    last = key;
  }
  return true;
}
