import type { z } from 'zod';

/**
 * Returns the schema of a PATCH: it needs at least one field. A client that sends none has a fault,
 * which an answer of 200 would hide.
 */
export function changes<Schema extends z.ZodObject>(schema: Schema): Schema {
  return schema
    .refine((given) => Object.keys(given).length > 0, {
      message: 'must have at least one field to change',
      // An unknown field is the fault then.
      when: ({ issues }) => issues.length === 0,
    })
    .meta({ minProperties: 1 });
}
