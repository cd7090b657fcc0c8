import { stringify } from 'csv-stringify/sync';

export const CSV_TYPE = 'text/csv; charset=utf-8';

/** Where text would become a formula if a spreadsheet separates cells by semicolons or tabs. */
const FORMULA_INSIDE = /(?<=[;\t\r\n])(?="*[=+\-@＝＋－＠])/g;

/**
 * Yields CSV (RFC 4180): a line with the names of the columns, then a piece for each batch of
 * records. An apostrophe precedes what a spreadsheet would take for a formula: at the start of a
 * cell, and where a cell would start if the spreadsheet has another separator.
 */
export async function* toCsv<Column extends string>(
  columns: readonly Column[],
  batches: AsyncIterable<Record<Column, unknown>[]>,
): AsyncGenerator<string, void, void> {
  yield csv([[...columns]]);
  for await (const records of batches)
    yield csv(records.map((record) => columns.map((column) => record[column])));
}

function csv(records: unknown[][]): string {
  return stringify(records, {
    record_delimiter: 'windows',
    escape_formulas: true,
    // It quotes only the whole record delimiter, and RFC 4180 each part of it.
    quoted_match: /[\r\n]/,
    cast: { string: (text) => text.replace(FORMULA_INSIDE, "'") },
  });
}
