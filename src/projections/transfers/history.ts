import { notFound } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { streamName } from '../../domain/events/streams.ts';
import { isId } from '../../domain/ids.ts';
import type { TransferCreated } from '../../domain/transfers/transfer.ts';
import type { Stores } from '../fold.ts';
import { throwNotFound } from '../retention/removed-transfers.ts';

/** Reads all events of an account's transfer as stored, oldest first. Throws `not_found`. */
export async function readHistory(
  stores: Stores,
  accountId: string,
  transferId: string,
): Promise<StoredEvent[]> {
  const events = await read(stores, accountId, transferId);
  const created = events[0]?.data as TransferCreated | undefined;
  if (created?.account_id !== accountId) throw notFound('transfer');
  return events;
}

/** Does the same for a transfer of any account. Only for operators: it checks no account. */
export function readAnyHistory(stores: Stores, transferId: string): Promise<StoredEvent[]> {
  return read(stores, null, transferId);
}

async function read(
  { store, sql }: Stores,
  accountId: string | null,
  transferId: string,
): Promise<StoredEvent[]> {
  if (!isId('txr', transferId)) throw notFound('transfer');
  const events = await store.read(streamName('transfer', transferId));
  return events.length > 0 ? events : throwNotFound(sql, accountId, transferId);
}
