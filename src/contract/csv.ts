import { stringify } from 'csv-stringify/sync';

export const CSV_TYPE = 'text/csv; charset=utf-8';

/**
 * Yields CSV (RFC 4180): a line with the names of the columns, then a piece for each batch of
 * records. A cell that a spreadsheet would take for a formula begins with an apostrophe.
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
  return stringify(records, { record_delimiter: 'windows', escape_formulas: true });
}
