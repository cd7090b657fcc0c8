import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { NewEvent } from './event.ts';

/**
 * Returns the lowercase hex SHA-256 of an event's RFC 8785 form. The next event of the stream
 * carries it as `prev_hash`.
 */
export function eventHash({ id, type, schema_version, data, metadata }: NewEvent): string {
  const canonical = canonicalize({ id, type, schema_version, data, metadata }) as string;
  return createHash('sha256').update(canonical).digest('hex');
}
