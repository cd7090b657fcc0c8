/*
 * Finds records of retention that the log contradicts. A record explains why events are missing. A
 * forged one could hide that the end of a transfer was removed, or replaced.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream, streamName } from '../../domain/events/streams.ts';
import { retentionRecords } from '../../domain/retention.ts';
import { recordPositions } from '../../projections/retention/removed-transfers.ts';
import type { CheckedStream } from './chain.ts';
import { type Fault, faultIn } from './fault.ts';

/**
 * Returns a fault for each transfer of which a record names some events, and the log has others.
 * `open` has the streams that may continue. A transfer that may leave the log is one of them only
 * if it has left since its first events were read, so the log is asked again.
 */
export async function partlyRemoved(
  store: EventStore,
  event: StoredEvent,
  open: ReadonlyMap<string, CheckedStream>,
): Promise<Fault[]> {
  const faults: Fault[] = [];
  const [record] = retentionRecords([event]);
  for (const { transfer_id, events } of record?.data.transfers ?? []) {
    const stream = streamName('transfer', transfer_id);
    if (!open.has(stream)) continue;
    const ids = new Set(events.map(({ id }) => id));
    if ((await store.read(stream)).some(({ id }) => !ids.has(id)))
      faults.push(
        faultIn(event, `it says that ${stream} left the log, and the log has other events of it`),
      );
  }
  return faults;
}

/** Returns a fault for each of these transfers that began after a record says that it left. */
export async function returned(sql: Sql, begun: StoredEvent[]): Promise<Fault[]> {
  const ids = begun.map(({ stream }) => parseStream(stream).id);
  const records = await recordPositions(sql, ids);
  return begun.flatMap((event) => {
    const recorded = records.get(parseStream(event.stream).id);
    if (recorded === undefined || recorded > event.position) return [];
    const record = `the record of retention at position ${recorded}`;
    return [faultIn(event, `${record} says that this transfer left the log, and it begins again`)];
  });
}
