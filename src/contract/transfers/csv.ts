import type { Transfer } from '../../domain/transfers/transfer.ts';
import { toCsv } from '../csv.ts';
import { toListItem } from './views.ts';

/** Columns of transfers in CSV. New ones go to the end: readers may count columns. */
const COLUMNS = [
  'id',
  'file_name',
  'size_bytes',
  'status',
  'source',
  'destination',
  'created_at',
  'completed_at',
  'retry_of',
  'error_code',
  'error_message',
  'metadata',
  'ended_at',
] as const;

/** Yields transfers as CSV, a piece for each batch. */
export function transfersToCsv(
  batches: AsyncIterable<Transfer[]>,
): AsyncGenerator<string, void, void> {
  return toCsv(COLUMNS, records(batches));
}

async function* records(batches: AsyncIterable<Transfer[]>) {
  for await (const transfers of batches) yield transfers.map(record);
}

function record(transfer: Transfer) {
  const { error, metadata } = transfer.facts;
  return {
    ...toListItem(transfer, null),
    error_code: error?.code,
    error_message: error?.message,
    metadata: JSON.stringify(metadata),
  };
}
