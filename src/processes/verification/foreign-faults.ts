import type { Sql } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { aggregateIdOf } from '../../domain/events/streams.ts';
import { recordPositions } from '../../projections/retention/removed-transfers.ts';
import { type Fault, faultIn } from './fault.ts';

/**
 * Returns a fault for each record that is no event of Waybill. Retention deletes streams, too: these
 * are no faults. `recorded` returns the transfers that records in the log name. It is asked only
 * if the read model lacks a transfer, because it reads all records.
 */
export async function foreignFaults(
  { sql, comparesApi }: { sql: Sql; comparesApi: boolean },
  events: StoredEvent[],
  recorded: () => Promise<ReadonlySet<string>>,
): Promise<Fault[]> {
  const foreign = events.filter(({ isForeign }) => isForeign);
  const removals = foreign.filter(isRemoval).map(aggregateIdOf);
  const known = comparesApi ? await recordPositions(sql, removals) : new Map();
  const inLog = removals.every((id) => known.has(id)) ? known : await recorded();
  return foreign.flatMap((event) => {
    const found = faultIn(event, event.unreadable ?? '');
    if (!isRemoval(event)) return [found];
    const id = aggregateIdOf(event);
    return known.has(id) || inLog.has(id) ? [] : [{ ...found, revision: null }];
  });
}

function isRemoval({ type }: StoredEvent): boolean {
  return type.startsWith('$');
}
