import type { Fragment, Queryable } from './connect.ts';

/**
 * Returns an expression for an array of JSON texts without line breaks. As an array, each text
 * would need an escape for every quote, which Postgres would have to remove again.
 */
export function jsonArray(sql: Queryable, documents: string[]): Fragment {
  return sql`string_to_array(${documents.join('\n')}::text, E'\n')`;
}
