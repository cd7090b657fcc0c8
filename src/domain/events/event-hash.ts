import { hash } from 'node:crypto';
import { canonicalJson } from './canonical-json.ts';
import type { NewEvent } from './event.ts';

/**
 * Returns the lowercase hex SHA-256 of an event's RFC 8785 form. The next event of the stream
 * carries it as `prev_hash`.
 */
export function eventHash({ data, id, metadata, schema_version, type }: NewEvent): string {
  return hash('sha256', canonicalJson({ data, id, metadata, schema_version, type }));
}
