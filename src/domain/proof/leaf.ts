import canonicalize from 'canonicalize';
import type { StoredEvent } from '../event.ts';

/** What a leaf of the tree says about an event. */
export type LeafContent = Omit<StoredEvent, 'position'>;

/**
 * Returns the text of an event's leaf: the RFC 8785 form of the event as it is stored, not upcast,
 * with its place in its stream. It leaves out the position, so a copy of the log has the same tree.
 */
export function leafOf(event: StoredEvent): string {
  const { stream, revision, id, type, schema_version, data, metadata } = event;
  return canonicalize({ stream, revision, id, type, schema_version, data, metadata }) as string;
}
