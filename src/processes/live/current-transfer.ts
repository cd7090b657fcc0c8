import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { streamName } from '../../domain/events/streams.ts';
import { stateOf } from '../../domain/transfers/history.ts';
import { type FoundTransfer, findTransfer } from './queries.ts';

interface Stores {
  sql: Sql;
  store: EventStore;
  commands: Pick<CommandDeps, 'waitToRead'>;
}

/**
 * Returns a transfer of an account with its live figures, or null if there is none. It reads the
 * event log where the read model is behind: between the end of a move and its update, so that the
 * progress that a client saw does not go back, and for a transfer that it does not have yet. It
 * first waits for the read model then: only the read model says why a transfer does not move.
 */
export async function currentTransfer(
  { sql, store, commands }: Stores,
  accountId: string,
  transferId: string,
): Promise<FoundTransfer | null> {
  const found = await findTransfer(sql, accountId, transferId);
  if (found && (found.transfer.status !== 'in_progress' || found.moving)) return found;
  const events = await store.read(streamName('transfer', transferId));
  const last = events.at(-1);
  if (last === undefined) return null;
  const transfer = stateOf(events);
  if (transfer.facts.account_id !== accountId) return null;
  const isShownNow = found === null && (await commands.waitToRead('transfers', last.position));
  const shown = isShownNow ? await findTransfer(sql, accountId, transferId) : null;
  return shown ?? { transfer, moving: null };
}
