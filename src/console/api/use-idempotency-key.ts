import { useMemo } from 'preact/hooks';
import { newIdempotencyKey } from './client.ts';

/**
 * Returns an Idempotency-Key, one for each content of a request while its form is there. If an
 * answer was lost, the next click gets the answer to the first one.
 */
export function useIdempotencyKey(content: unknown): string {
  return useMemo(newIdempotencyKey, [JSON.stringify(content)]);
}
