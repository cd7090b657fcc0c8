import { canonicalJson } from '../canonical-json.ts';
import type { StoredEvent } from '../event.ts';
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

/** What a leaf says about an event whose data and metadata are in their RFC 8785 form. */
export type LeafTexts = Omit<LeafContent, 'data' | 'metadata'> & { data: string; metadata: string };

/** Returns the same text, without a parse and a second serialisation of data and metadata. */
export function leafOfTexts(event: LeafTexts): string {
  const { data, id, metadata, revision, schema_version, stream, type } = event;
  return (
    `{"data":${data},"id":${JSON.stringify(id)},"metadata":${metadata},"revision":${revision},` +
    `"schema_version":${schema_version},"stream":${JSON.stringify(stream)},` +
    `"type":${JSON.stringify(type)}}`
  );
}

/** Returns the hash of an event's leaf. */
export function hashOfLeaf(event: StoredEvent): Hash {
  return leafHash(leafOf(event));
}
