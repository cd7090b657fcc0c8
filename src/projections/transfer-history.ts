import type { EventStore } from '../adapters/event-store/port.ts';
import type { StoredEvent } from '../domain/event.ts';
import { isId } from '../domain/ids.ts';
import { streamName } from '../domain/streams.ts';
import { notFound, type TransferCreated } from '../domain/transfer.ts';

/** Reads all events of an account's transfer as stored, oldest first. Throws `not_found`. */
export async function readHistory(
  store: EventStore,
  accountId: string,
  transferId: string,
): Promise<StoredEvent[]> {
  const events = await readAnyHistory(store, transferId);
  const created = events[0]?.data as TransferCreated | undefined;
  if (created?.account_id !== accountId) throw notFound();
  return events;
}

/** Does the same for a transfer of any account. Only for operators: it checks no account. */
export async function readAnyHistory(
  store: EventStore,
  transferId: string,
): Promise<StoredEvent[]> {
  if (!isId('txr', transferId)) throw notFound();
  const events = await store.read(streamName('transfer', transferId));
  if (events.length === 0) throw notFound();
  return events;
}
