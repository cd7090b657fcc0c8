/*
 * What left the log by retention: the tables `retention_records` and `retained_transfers` of the
 * read model of transfers.
 */
import { pagesOf } from '../../adapters/event-store/pages.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Queryable, Sql, Transaction } from '../../adapters/postgres/connect.ts';
import { DomainError, notFound } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { RETENTION } from '../../domain/events/streams.ts';
import { isId } from '../../domain/ids.ts';
import { leftLog, type RemovedEvent, retentionRecords } from '../../domain/retention.ts';
import type { Difference, Projection } from '../projection.ts';
import { revisionAfter } from '../read-log.ts';

/** Records that are read at once. Each has 32 KiB. */
const READ_AT_ONCE = 20;

export const RETENTION_TABLES = ['retention_records', 'retained_transfers'];

export async function createRetentionTables(tx: Transaction, schema: string): Promise<void> {
  await tx`
    create table ${tx(schema)}.retention_records (
      revision integer primary key,
      position bigint not null,
      export_name text not null,
      recorded_at timestamptz not null,
      -- false while some of its transfers may be in the log
      completed boolean not null
    )`;
  await tx`create index on ${tx(schema)}.retention_records (revision) where not completed`;
  await tx`
    create table ${tx(schema)}.retained_transfers (
      transfer_id text collate "C" primary key,
      account_id text not null,
      record integer not null,
      position bigint not null
    )`;
}

/** Saves records of retention. Returns the ids of the transfers that they name. */
export async function saveRetentionRecords(
  tx: Transaction,
  schema: string,
  events: StoredEvent[],
): Promise<string[]> {
  const records = retentionRecords(events);
  const named = records.flatMap(({ revision, position, data }) =>
    data.transfers.map(({ transfer_id, account_id }) => ({
      ...{ transfer_id, account_id, record: revision },
      position: String(position),
    })),
  );
  if (records.length > 0) {
    const rows = records.map(({ revision, position, data, metadata }) => ({
      ...{ revision, position: String(position), completed: false },
      export_name: data.export.name,
      recorded_at: metadata.occurred_at,
    }));
    await tx`
      insert into ${tx(schema)}.retention_records
      select * from jsonb_to_recordset(${tx.json(rows)})
        as r(revision integer, position bigint, export_name text, recorded_at timestamptz,
             completed boolean)
      on conflict do nothing`;
    await tx`
      insert into ${tx(schema)}.retained_transfers
      select * from jsonb_to_recordset(${tx.json(named)})
        as r(transfer_id text, account_id text, record integer, position bigint)
      on conflict do nothing`;
  }
  const last = events.findLast(({ type }) => type === 'log.retention_completed');
  if (last?.stream === RETENTION)
    await tx`
      update ${tx(schema)}.retention_records set completed = true
       where revision < ${last.revision} and not completed`;
  return named.map(({ transfer_id }) => transfer_id);
}

/**
 * Returns the rows that differ between two schemas. A record does not know when it was completed,
 * so that is compared only if both schemas have processed the same last event.
 */
export const retentionDifferences: Projection['differences'] = (
  tx,
  { live, shadow, position, limit },
) => tx<Difference[]>`
    with compared as (
      select case when count(distinct event_id) = 1 then '' else 'completed' end as without
        from read.checkpoints where name in ('transfers', 'transfers:rebuild'))
    select transfer_id as key, to_jsonb(l) as live, to_jsonb(s) as log
      from ${tx(live)}.retained_transfers l
      full join ${tx(shadow)}.retained_transfers s using (transfer_id)
     where coalesce(l.position, s.position) <= ${position} and l is distinct from s
    union all
    select 'retention ' || revision, to_jsonb(l) - without, to_jsonb(s) - without
      from ${tx(live)}.retention_records l
      full join ${tx(shadow)}.retention_records s using (revision)
     cross join compared
     where coalesce(l.position, s.position) <= ${position}
       and to_jsonb(l) - without is distinct from to_jsonb(s) - without
     limit ${limit}`;

/**
 * Returns the revision of the oldest record whose transfers may still be in the log; null if the
 * read model has none. The log may have later ones.
 */
export async function firstOpenRecord(sql: Sql): Promise<number | null> {
  const [row] = await sql<{ revision: number | null }[]>`
    select min(revision) as revision from read.retention_records where not completed`;
  return row?.revision ?? null;
}

/** Returns the revision of the last record that the read model has; null if there is none. */
export async function lastRecord(sql: Sql): Promise<number | null> {
  const [row] = await sql<{ revision: number | null }[]>`
    select max(revision) as revision from read.retention_records`;
  return row?.revision ?? null;
}

/**
 * Throws `not_found`. Its detail says when the transfer left the log, if it did. `accountId` null
 * means any account.
 */
export async function throwNotFound(
  sql: Queryable,
  accountId: string | null,
  transferId: string,
): Promise<never> {
  // Postgres takes no NUL, which the text of a client can have.
  if (!isId('txr', transferId)) throw notFound('transfer');
  const [row] = await sql<{ export_name: string; recorded_at: string }[]>`
    select export_name, recorded_at
      from read.retained_transfers t join read.retention_records r on r.revision = t.record
     where transfer_id = ${transferId}
       and (${accountId}::text is null or account_id = ${accountId})`;
  throw row ? leftLog(row.recorded_at, row.export_name) : notFound('transfer');
}

/** Runs the change of a transfer. Of one that the log lacks, throws what `throwNotFound` throws. */
export async function orSayWhenItLeft<T>(
  sql: Queryable,
  accountId: string | null,
  transferId: string,
  change: () => Promise<T>,
): Promise<T> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof DomainError && error.code === 'not_found')
      return throwNotFound(sql, accountId, transferId);
    throw error;
  }
}

/**
 * Returns true if a record in the log names this event of the transfer. The table alone proves
 * nothing, and the record covers no events that came later.
 */
export async function isRecorded(
  { sql, store }: { sql: Sql; store: EventStore },
  transferId: string,
  eventId: string,
): Promise<boolean> {
  const [row] = await sql<{ record: number }[]>`
    select record from read.retained_transfers where transfer_id = ${transferId}`;
  const events = row ? await eventsInRecord(store, row.record, new Set([transferId])) : [];
  return events.some(({ id }) => id === eventId);
}

/**
 * Returns the hashes of leaves that records in the log name for these transfers, in hex, by the id
 * of the event. Finds the records by the table, so it finds none without it.
 */
export async function recordedHashes(
  { sql, store }: { sql: Sql; store: EventStore },
  transferIds: string[],
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>();
  if (transferIds.length === 0) return hashes;
  const rows = await sql<{ record: number }[]>`
    select distinct record from read.retained_transfers
     where transfer_id = any(${transferIds}::text[])`;
  const wanted = new Set(transferIds);
  for (const { record } of rows)
    for (const { id, hash } of await eventsInRecord(store, record, wanted)) hashes.set(id, hash);
  return hashes;
}

/** Returns the events that the record at a revision names for these transfers. */
async function eventsInRecord(
  store: EventStore,
  revision: number,
  transferIds: ReadonlySet<string>,
): Promise<RemovedEvent[]> {
  return retentionRecords(await store.read(RETENTION, revision, 1))
    .flatMap(({ data }) => data.transfers)
    .filter(({ transfer_id }) => transferIds.has(transfer_id))
    .flatMap(({ events }) => events);
}

/** Returns the positions of the records that name these transfers, by transfer. */
export async function recordPositions(
  sql: Sql,
  transferIds: string[],
): Promise<Map<string, bigint>> {
  if (transferIds.length === 0) return new Map();
  const rows = await sql<{ transfer_id: string; position: bigint }[]>`
    select transfer_id, position from read.retained_transfers
     where transfer_id = any(${transferIds}::text[])`;
  return new Map(rows.map(({ transfer_id, position }) => [transfer_id, position]));
}

/** Returns the transfers that records of retention after a position name. */
export async function leavingAfter(store: EventStore, position: bigint): Promise<string[]> {
  const ids: string[] = [];
  const first = await revisionAfter(store, RETENTION, position);
  for await (const events of pagesOf(store, RETENTION, first, READ_AT_ONCE))
    for (const { data } of retentionRecords(events))
      ids.push(...data.transfers.map(({ transfer_id }) => transfer_id));
  return ids;
}
