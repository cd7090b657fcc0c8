import { canonicalJson } from '../events/canonical-json.ts';
import type { StoredEvent } from '../events/event.ts';
import { type Hash, leafHash } from './hash.ts';

/** What a leaf of the tree says about an event. */
export type LeafContent = Omit<StoredEvent, 'position'>;

/**
 * Returns the text of an event's leaf: the RFC 8785 form of the event as it is stored, not upcast,
 * with its place in its stream. It leaves out the position, so a copy of the log has the same tree.
 */
export function leafOf(event: StoredEvent): string {
  const { data, id, metadata, revision, schema_version, stream, type } = event;
  return canonicalJson({ data, id, metadata, revision, schema_version, stream, type });
}

/** Returns the hash of an event's leaf. */
export function hashOfLeaf(event: StoredEvent): Hash {
  return leafHash(leafOf(event));
}
