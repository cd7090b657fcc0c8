import type { Queryable, Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import {
  aggregateIdOf,
  parseStream,
  RETENTION,
  streamName,
  streamPrefix,
} from '../../domain/events/streams.ts';
import { transferDecider } from '../../domain/transfers/decider.ts';
import type { Transfer, TransferState } from '../../domain/transfers/transfer.ts';
import { type Folded, foldBatch } from '../fold.ts';
import type { Projection } from '../projection.ts';
import type { RemovedLeaves } from '../retention/removed-leaves.ts';
import {
  createRetentionTables,
  RETENTION_TABLES,
  saveRetentionRecords,
} from '../retention/removed-transfers.ts';
import {
  batchOf,
  errorCodeOf,
  errorEndpointOf,
  hasBatch,
  hasFailed,
  isRetry,
  retryOf,
} from './columns.ts';
import type { StateChange } from './counts.ts';
import { transferDifferences } from './differences.ts';
import { type RowChanges, saveChanges, writes } from './save.ts';
import { openStatuses } from './statuses.ts';

/**
 * The read model of transfers: one row for each transfer, counts by account, status and hour,
 * counts by batch and status, and totals by status. Transfers that leave the log lose their rows,
 * and the counts follow (removed-transfers.ts).
 */
export const transfersProjection: Projection = {
  name: 'transfers',
  version: 12,
  streams: [streamPrefix('transfer'), RETENTION],
  only: 'data',
  // A statement for each event is a fifth of the work of a service with one client.
  gatherMs: 10,
  tables: ['transfers', 'transfer_counts', 'batch_counts', 'transfer_totals', ...RETENTION_TABLES],

  async create(tx, schema) {
    await tx`
      create table ${tx(schema)}.transfers (
        transfer_id text collate "C" primary key,
        account_id text not null,
        status text not null,
        created_at timestamptz not null,
        destination text collate "C" not null,
        revision integer not null,
        position bigint not null,
        -- json costs half as much as jsonb here: often written, rarely queried inside
        state json not null
      )`;
    await tx`
      create table ${tx(schema)}.transfer_counts (
        account_id text not null,
        status text not null,
        hour timestamptz not null,
        transfers bigint not null,
        primary key (account_id, hour, status)
      )`;
    await tx`
      create table ${tx(schema)}.batch_counts (
        batch_id text collate "C" not null,
        status text not null,
        transfers bigint not null,
        -- the known sizes of these transfers
        bytes bigint not null,
        primary key (batch_id, status)
      )`;
    // After years with a thousand accounts there are millions of counts: too many to sum every
    // minute.
    await tx`
      create table ${tx(schema)}.transfer_totals (
        status text primary key,
        transfers bigint not null
      )`;
    await createRetentionTables(tx, schema);
  },

  // Oldest first, as the rows come: what is sorted already takes half the time to sort, and new
  // rows go to the end of a page. Postgres reads them backwards for the newest.
  indexes: (sql, schema) => [
    // With the time, so that a page of a destination reads no other rows.
    sql`create index on ${sql(schema)}.transfers (account_id, destination, created_at)`,
    sql`create index on ${sql(schema)}.transfers (account_id, status, created_at, transfer_id)`,
    sql`create index on ${sql(schema)}.transfers (account_id, created_at, transfer_id)`,
    sql`create index on ${sql(schema)}.transfers (${retryOf(sql)}) where ${isRetry(sql)}`,
    sql`
      create index on ${sql(schema)}.transfers
        (${batchOf(sql)}, status, created_at, transfer_id) where ${hasBatch(sql)}`,
    sql`
      create index on ${sql(schema)}.transfers
        (account_id, ${errorCodeOf(sql)}, created_at, transfer_id) where ${hasFailed(sql)}`,
    sql`
      create index on ${sql(schema)}.transfers
        (account_id, ${errorEndpointOf(sql)}, created_at, transfer_id) where ${hasFailed(sql)}`,
    // Each new transfer asks for the open transfers: few rows, however many hours have passed.
    sql`
      create index on ${sql(schema)}.transfer_counts (account_id)
       where status in (${openStatuses(sql)}) and transfers <> 0`,
  ],

  async apply(tx, schema, events, removed) {
    const ofTransfers = events.filter(isOfTransfer);
    // All of them: those that begin in this batch have a row if it is applied again.
    const known = await load(tx, schema, ofTransfers);
    await saveChanges(tx, schema, await fold(ofTransfers, known, removed));
    if (ofTransfers.length === events.length) return;
    const left = await saveRetentionRecords(tx, schema, events);
    await saveChanges(tx, schema, {
      inserted: [],
      updated: [],
      changes: await remove(tx, schema, left),
    });
  },

  async inOneStatement(sql, schema, events, removed) {
    if (!events.every(isOfTransfer)) return null;
    const changed = await foldOnto(sql, schema, events, new Map(), removed);
    return (statement) => writes(statement, schema, changed);
  },

  createFill(sql, schema) {
    type Rows = [stream: string, row: Folded<TransferState>][];
    // The rows of the two batches before, which may not be in the table yet.
    let older: Rows = [];
    let newer: Rows = [];
    return async (events, removed) => {
      if (!events.every(isOfTransfer)) {
        older = newer = [];
        return null;
      }
      const known = new Map([...older, ...newer]);
      const changed = await foldOnto(sql, schema, events, known, removed);
      older = newer;
      newer = [...changed.inserted, ...changed.updated].map((row) => [
        streamName('transfer', row.state.facts.transfer_id),
        row,
      ]);
      return (statement) => writes(statement, schema, changed);
    };
  },

  differences: transferDifferences,
};

function isOfTransfer({ stream }: StoredEvent): boolean {
  return parseStream(stream).kind === 'transfer';
}

/** Folds events of transfers onto known rows, and onto those of the table that they continue. */
async function foldOnto(
  sql: Queryable,
  schema: string,
  events: StoredEvent[],
  known: Map<string, Folded<TransferState>>,
  removed: RemovedLeaves | undefined,
): Promise<RowChanges> {
  const begun = new Set(events.flatMap(({ stream, revision }) => (revision === 0 ? stream : [])));
  const continued = events.filter(({ stream }) => !begun.has(stream) && !known.has(stream));
  const rows = await load(sql, schema, continued);
  return fold(events, new Map([...known, ...rows]), removed);
}

interface Row {
  transfer_id: string;
  revision: number;
  position: bigint;
  state: Transfer;
}

async function load(
  tx: Queryable,
  schema: string,
  events: StoredEvent[],
): Promise<Map<string, Folded<TransferState>>> {
  if (events.length === 0) return new Map();
  const ids = [...new Set(events.map(aggregateIdOf))];
  // Casts, because an older version's table has jsonb. A prepared statement would fail when the
  // type changes at the switch-over.
  const rows = await tx<Row[]>`
    select transfer_id, revision, position, state::json as state from ${tx(schema)}.transfers
     where transfer_id = any(${ids})`;
  return new Map(
    rows.map(({ transfer_id, ...folded }) => [streamName('transfer', transfer_id), folded]),
  );
}

/**
 * Returns the streams without a next event that left the log. An EventStoreDB frees the space of
 * removed events piece by piece, so some may be left. The record of these transfers follows.
 */
async function goneStreams(
  events: StoredEvent[],
  known: Map<string, Folded<TransferState>>,
  removed: RemovedLeaves | undefined,
): Promise<Set<string>> {
  const revisions = new Map<string, number>();
  const gone = new Set<string>();
  for (const { stream, revision } of events) {
    const before = revisions.get(stream) ?? known.get(stream)?.revision ?? -1;
    if (revision > before + 1 && (await removed?.isGone(stream))) gone.add(stream);
    revisions.set(stream, Math.max(before, revision));
  }
  return gone;
}

async function fold(
  events: StoredEvent[],
  known: Map<string, Folded<TransferState>>,
  removed: RemovedLeaves | undefined,
): Promise<RowChanges> {
  const gone = await goneStreams(events, known, removed);
  const there = events.filter(({ stream }) => !gone.has(stream));
  const changed = foldBatch<TransferState>(there, known, transferDecider) as Map<
    string,
    Folded<Transfer>
  >;
  const inserted: Folded<Transfer>[] = [];
  const updated: Folded<Transfer>[] = [];
  for (const [stream, row] of changed) (known.has(stream) ? updated : inserted).push(row);
  return {
    inserted,
    updated,
    changes: [...changed].map(([stream, { state }]) => ({
      before: known.get(stream)?.state,
      after: state,
    })),
  };
}

/** Removes the rows of transfers that leave the log. */
async function remove(
  tx: Transaction,
  schema: string,
  transferIds: string[],
): Promise<StateChange[]> {
  if (transferIds.length === 0) return [];
  const rows = await tx<Pick<Row, 'state'>[]>`
    delete from ${tx(schema)}.transfers where transfer_id = any(${transferIds}) returning state`;
  return rows.map(({ state }) => ({ before: state, after: null }));
}
