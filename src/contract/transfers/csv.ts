import type { Transfer } from '../../domain/transfer.ts';
import { toCsv } from '../csv.ts';
import type { TransferListItem } from './answers.ts';
import { toListItem } from './views.ts';

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

/** Yields transfers as CSV, a piece for each batch. */
export function transfersToCsv(
  batches: AsyncIterable<Transfer[]>,
): AsyncGenerator<string, void, void> {
  return toCsv(COLUMNS, items(batches));
}

async function* items(batches: AsyncIterable<Transfer[]>): AsyncGenerator<TransferListItem[]> {
  for await (const transfers of batches)
    yield transfers.map((transfer) => toListItem(transfer, null));
}
