import type { Fragment, Queryable } from './connect.ts';
import { joinTexts } from './long-texts.ts';

/** Returns a parameter with a line for each text. The texts have no line breaks. */
export function lines(sql: Queryable, texts: string[]): Fragment {
  return sql`${sql.typed.text(joinTexts(texts, '\n'))}::text`;
}

/**
 * Returns an expression for an array of JSON texts without line breaks. As an array, each text
 * would need an escape for every quote, which Postgres would have to remove again.
 */
export function jsonArray(sql: Queryable, documents: string[]): Fragment {
  return sql`string_to_array(${lines(sql, documents)}, E'\n')`;
}
