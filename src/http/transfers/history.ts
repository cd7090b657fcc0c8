import type { EventStore } from '../../adapters/event-store/port.ts';
import { streamOf } from '../../commands/transfers.ts';
import type { StoredEvent } from '../../domain/event.ts';
import { isId } from '../../domain/ids.ts';
import { evolve, initialState, notFound, type Transfer, type TransferCreated } from '../../domain/transfer.ts';
import { upcast } from '../../domain/upcast.ts';
import type { AsOf } from './schemas.ts';

/** All events of a transfer of an account, oldest first. Throws `not_found`. */
export async function readHistory(store: EventStore, accountId: string, transferId: string): Promise<StoredEvent[]> {
  if (!isId('txr', transferId)) throw notFound();
  const events = (await store.read(streamOf(transferId))).map(upcast);
  const created = events[0]?.data as TransferCreated | undefined;
  if (created?.account_id !== accountId) throw notFound();
  return events;
}

/** The transfer as it was. Throws `not_found` where it had not been created yet. */
export function stateAsOf(events: StoredEvent[], asOf: AsOf): Transfer {
  const until =
    'revision' in asOf
      ? (event: StoredEvent) => event.revision <= asOf.revision
      : (event: StoredEvent) => event.metadata.occurred_at <= asOf.time;
  const state = events.filter(until).reduce(evolve, initialState());
  if (state.status === 'none') throw notFound();
  return state;
}
