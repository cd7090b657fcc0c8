import { stringify } from 'csv-stringify/sync';
import type { Transfer } from '../../domain/transfer.ts';
import type { TransferListItem } from './answers.ts';
import { toListItem } from './views.ts';

export const CSV_TYPE = 'text/csv; charset=utf-8';
export const CSV_FILE = 'transfers.csv';

/** Columns of transfers in CSV: the fields of a list item that have one value. */
const COLUMNS = [
  'id',
  'file_name',
  'size_bytes',
  'status',
  'source',
  'destination',
  'created_at',
  'completed_at',
] as const satisfies (keyof TransferListItem)[];

/**
 * Yields transfers as CSV (RFC 4180) with a line of names, a piece for each batch. A cell that a
 * spreadsheet would take for a formula begins with an apostrophe.
 */
export async function* toCsv(
  batches: AsyncIterable<Transfer[]>,
): AsyncGenerator<string, void, void> {
  yield csv([[...COLUMNS]]);
  for await (const transfers of batches)
    yield csv(
      transfers.map((transfer) => {
        const item = toListItem(transfer, null);
        return COLUMNS.map((column) => item[column]);
      }),
    );
}

function csv(records: unknown[][]): string {
  return stringify(records, { record_delimiter: 'windows', escape_formulas: true });
}
