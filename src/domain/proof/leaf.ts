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

/** Returns the hash of an event's leaf. Throws Error if the event has no RFC 8785 form. */
export function hashOfLeaf(event: StoredEvent): Hash {
  return leafHash(leafOf(event));
}

/** As `hashOfLeaf`, for an event whose data and metadata are at hand in their RFC 8785 form. */
export function hashOfLeafTexts(
  { id, revision, schema_version, stream, type }: Omit<LeafContent, 'data' | 'metadata'>,
  { data, metadata }: { data: string; metadata: string },
): Hash {
  const [idText, streamText, typeText] = [id, stream, type].map((name) => JSON.stringify(name));
  return leafHash(
    `{"data":${data},"id":${idText},"metadata":${metadata},"revision":${revision},` +
      `"schema_version":${schema_version},"stream":${streamText},"type":${typeText}}`,
  );
}

/**
 * Returns the hash of an event's leaf. An event that cannot be read, or has no RFC 8785 form, gets
 * a hash that no signed leaf has.
 */
export function hashOfAnyLeaf(event: StoredEvent): Hash {
  const { stream, revision, position, unreadable, leaf_hash } = event;
  if (leaf_hash !== undefined) return leaf_hash;
  const other = () => leafHash(`${stream} ${revision} ${position}`);
  if (unreadable !== undefined) return other();
  try {
    return hashOfLeaf(event);
  } catch {
    return other();
  }
}
