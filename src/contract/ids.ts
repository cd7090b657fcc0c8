import { z } from 'zod';
import { type IdPrefix, isId } from '../domain/ids.ts';

/**
 * An id by which a list is filtered: that of `resource`, such as `an endpoint`. Another text would
 * match nothing, and look like no match.
 */
export function idOf(prefix: IdPrefix, resource: string) {
  return z
    .string()
    .refine(
      (value) => isId(prefix, value),
      `must be the id of ${resource}: ${prefix}_ and 26 characters`,
    )
    .meta({ examples: [`${prefix}_01JZ8Q6W3N5V4T2R1P0M9K8J7H`] });
}
