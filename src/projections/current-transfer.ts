import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql } from '../adapters/postgres/connect.ts';
import { streamOf } from '../commands/transfers.ts';
import { evolve, initialState, type Transfer } from '../domain/transfer.ts';
import { upcast } from '../domain/upcast.ts';
import { type FoundTransfer, findTransfer } from './transfer-queries.ts';

/**
 * One transfer of an account as it is now, with its live figures; null where there is none. In the
 * moment between the end of a move and the read model's hearing of it, the log itself is asked: what
 * was shown of the move does not go back.
 */
export async function currentTransfer(
  { sql, store }: { sql: Sql; store: EventStore },
  accountId: string,
  transferId: string,
): Promise<FoundTransfer | null> {
  const found = await findTransfer(sql, accountId, transferId);
  if (found?.transfer.status !== 'in_progress' || found.moving) return found;
  const events = await store.read(streamOf(transferId));
  return { transfer: events.map(upcast).reduce(evolve, initialState()) as Transfer, moving: null };
}
