import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { streamName } from '../../domain/streams.ts';
import { stateOf } from '../../domain/transfer-history.ts';
import { type FoundTransfer, findTransfer } from './queries.ts';

/**
 * Returns a transfer of an account with its live figures, or null if there is none. It reads the
 * event log where the read model is behind: between the end of a move and its update, so that the
 * progress that a client saw does not go back, and for a transfer that it does not have yet.
 */
export async function currentTransfer(
  { sql, store }: { sql: Sql; store: EventStore },
  accountId: string,
  transferId: string,
): Promise<FoundTransfer | null> {
  const found = await findTransfer(sql, accountId, transferId);
  if (found && (found.transfer.status !== 'in_progress' || found.moving)) return found;
  const events = await store.read(streamName('transfer', transferId));
  if (events.length === 0) return null;
  const transfer = stateOf(events);
  return transfer.facts.account_id === accountId ? { transfer, moving: null } : null;
}
