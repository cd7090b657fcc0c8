/*
 * Finds records of retention that the log contradicts. A record explains why events are missing. A
 * forged one could hide that the end of a transfer was removed, or replaced.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { aggregateIdOf, streamName } from '../../domain/events/streams.ts';
import { type RemovedLeaf, retentionRecords } from '../../domain/retention.ts';
import { readLeaves } from '../../projections/proof/leaves.ts';
import { recordPositions } from '../../projections/retention/removed-transfers.ts';
import { shownTransfers } from '../../projections/transfers/shown.ts';
import type { CheckedStream } from './chain.ts';
import { type Fault, faultIn } from './fault.ts';

/** Removed leaves whose names are read at once. Others may lie between them. */
const READ_AT_ONCE = 1_000;

/**
 * Yields how the log and the API contradict a record of retention. `open` has the streams that may
 * continue.
 */
export async function* recordFaults(
  { store, sql, comparesApi }: { store: EventStore; sql: Sql; comparesApi: boolean },
  event: StoredEvent,
  open: ReadonlyMap<string, CheckedStream>,
): AsyncGenerator<Fault> {
  yield* await partlyRemoved(store, event, open);
  const unknown = comparesApi ? await unknownToApi(sql, event) : null;
  if (unknown !== null) yield unknown;
}

/**
 * Returns a fault for each transfer of which a record names some events, and the log has others.
 * A transfer that may leave the log is an open one only if it has left since its first events were
 * read, so the log is asked again.
 */
async function partlyRemoved(
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

/**
 * Returns the fault of a record whose transfers the read model does not know as removed: the API
 * does not say that they left the log, or says that they left after this record. Such a row hides a
 * transfer that begins again after its record. A second record may name the same transfer, so an
 * earlier position is no fault.
 */
async function unknownToApi(sql: Sql, event: StoredEvent): Promise<Fault | null> {
  const [record] = retentionRecords([event]);
  const ids = record?.data.transfers.map(({ transfer_id }) => transfer_id) ?? [];
  const { reached } = await shownTransfers(sql, []);
  if (ids.length === 0 || reached < event.position) return null;
  const known = await recordPositions(sql, ids);
  const unknown = ids.filter((id) => !known.has(id));
  const later = ids.filter((id) => (known.get(id) ?? 0n) > event.position);
  const [some, says] =
    unknown.length > 0
      ? [unknown, `the API does not say that ${unknown.length} of its transfers left the log`]
      : [later, `the API says that ${later.length} of its transfers left the log later`];
  if (some.length === 0) return null;
  const named = `such as ${some[0]}: \`waybill projections verify transfers\` names them`;
  return { ...faultIn(event, `${says}, ${named}`), check: 'api' };
}

/**
 * Returns a fault for each event that records name otherwise than the stored tree. Such a record
 * hides another event: the hash of a leaf does not tell which event it is. Nothing proves the names
 * in the tree. So this finds a forged record only until the tree is rebuilt.
 */
export async function misnamed(sql: Sql, removed: RemovedLeaf[]): Promise<Fault[]> {
  const faults: Fault[] = [];
  for (let i = 0; i < removed.length; i += READ_AT_ONCE) {
    const some = removed.slice(i, i + READ_AT_ONCE);
    const [first, last] = [some[0] as RemovedLeaf, some.at(-1) as RemovedLeaf];
    const stored = await readLeaves(sql, first.index, last.index + 1);
    const names = new Map(stored.map(({ index, name }) => [index, name]));
    for (const { index, stream, revision, id } of some) {
      const name = names.get(index) ?? null;
      if (name === null || (name.id === id && name.stream === stream && name.revision === revision))
        continue;
      faults.push({
        ...{ check: 'api', position: null },
        ...{ stream: name.stream, revision: name.revision, event_id: name.id },
        problem:
          `a record of retention names it as ${stream} revision ${revision} (${id}), ` +
          'which left the log',
      });
    }
  }
  return faults;
}

/** Returns a fault for each of these transfers that began after a record says that it left. */
export async function returned(sql: Sql, begun: StoredEvent[]): Promise<Fault[]> {
  const ids = begun.map(aggregateIdOf);
  const records = await recordPositions(sql, ids);
  return begun.flatMap((event) => {
    const recorded = records.get(aggregateIdOf(event));
    if (recorded === undefined || recorded > event.position) return [];
    const record = `the record of retention at position ${recorded}`;
    return [faultIn(event, `${record} says that this transfer left the log, and it begins again`)];
  });
}
