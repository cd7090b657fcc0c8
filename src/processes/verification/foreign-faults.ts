import type { Sql } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream } from '../../domain/events/streams.ts';
import { recordPositions } from '../../projections/retention/removed-transfers.ts';
import { type Fault, faultIn } from './fault.ts';

/**
 * Returns a fault for each record that is no event of Waybill. Retention deletes streams, too: these
 * are no faults. Without the table of removed transfers, no deletion is one.
 */
export async function foreignFaults(
  { sql, comparesApi }: { sql: Sql; comparesApi: boolean },
  events: StoredEvent[],
): Promise<Fault[]> {
  const foreign = events.filter(({ isForeign }) => isForeign);
  const ids = foreign.map(({ stream }) => parseStream(stream).id);
  const records = comparesApi ? await recordPositions(sql, ids) : null;
  return foreign.flatMap((event) => {
    const { stream, unreadable = '' } = event;
    const isRemoval = event.type.startsWith('$');
    if (isRemoval && (records === null || records.has(parseStream(stream).id))) return [];
    const found = faultIn(event, unreadable);
    return [isRemoval ? { ...found, revision: null } : found];
  });
}
