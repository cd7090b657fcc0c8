import type { Transaction } from '../adapters/postgres/connect.ts';
import type { StoredEvent } from '../domain/event.ts';
import { parseStream, RETENTION, streamName, streamPrefix } from '../domain/streams.ts';
import type { Transfer, TransferState } from '../domain/transfer.ts';
import { transferDecider } from '../domain/transfer-decider.ts';
import { type Folded, foldBatch } from './fold.ts';
import type { Projection } from './projection.ts';
import type { RemovedLeaves } from './removed-leaves.ts';
import { createRetained, RETAINED_TABLES, saveRetained } from './retained-transfers.ts';
import { batchOf, hasBatch, isRetry, retryOf } from './transfer-columns.ts';
import { transferDifferences } from './transfer-differences.ts';

/**
 * The read model of transfers: one row for each transfer, counts by account, status and hour, counts
 * by batch and status, and totals by status. Transfers that leave the log lose their rows, and the
 * counts follow (retained-transfers.ts).
 */
export const transfersProjection: Projection = {
  name: 'transfers',
  version: 9,
  streams: [streamPrefix('transfer'), RETENTION],
  tables: ['transfers', 'transfer_counts', 'batch_counts', 'transfer_totals', ...RETAINED_TABLES],

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
    await createRetained(tx, schema);
  },

  async createIndexes(tx, schema) {
    await tx`
      create index on ${tx(schema)}.transfers (account_id, created_at desc, transfer_id desc)`;
    await tx`
      create index on ${tx(schema)}.transfers
        (account_id, status, created_at desc, transfer_id desc)`;
    // With the time, so that a page of a destination reads no other rows.
    await tx`create index on ${tx(schema)}.transfers (account_id, destination, created_at)`;
    await tx`
      create index on ${tx(schema)}.transfers (${retryOf(tx)}) where ${isRetry(tx)}`;
    await tx`
      create index on ${tx(schema)}.transfers
        (${batchOf(tx)}, status, created_at desc, transfer_id desc) where ${hasBatch(tx)}`;
    // Each new transfer asks for the open transfers: few rows, however many hours have passed.
    await tx`
      create index on ${tx(schema)}.transfer_counts (account_id)
       where status in ('pending', 'queued', 'in_progress') and transfers <> 0`;
  },

  async apply(tx, schema, events, removed) {
    const ofTransfers = events.filter(({ stream }) => parseStream(stream).kind === 'transfer');
    const known = await load(tx, schema, ofTransfers);
    const gone = await goneStreams(ofTransfers, known, removed);
    const there = ofTransfers.filter(({ stream }) => !gone.has(stream));
    const changed = foldBatch<TransferState>(there, known, transferDecider) as Map<
      string,
      Folded<Transfer>
    >;
    if (changed.size > 0) {
      const changes = [...changed].map(([stream, { state }]) => ({
        before: known.get(stream)?.state,
        after: state,
      }));
      await saveChanges(tx, schema, [...changed.values()], changes);
    }
    if (ofTransfers.length === events.length) return;
    const left = await saveRetained(tx, schema, events);
    const rows = await remove(tx, schema, left);
    if (rows.length > 0) await saveChanges(tx, schema, [], rows);
  },

  differences: transferDifferences,
};

interface Row {
  transfer_id: string;
  revision: number;
  position: bigint;
  state: Transfer;
}

async function load(
  tx: Transaction,
  schema: string,
  events: StoredEvent[],
): Promise<Map<string, Folded<TransferState>>> {
  // Includes streams that begin in this batch: they have a row if the batch is applied again.
  const ids = [...new Set(events.map(({ stream }) => parseStream(stream).id))];
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

/** What the counts follow: a transfer before, and after. Undefined before its first event. */
interface Change {
  before: TransferState | undefined;
  /** Null if the transfer left the log. */
  after: Transfer | null;
}

/** Removes the rows of transfers that leave the log. */
async function remove(tx: Transaction, schema: string, transferIds: string[]): Promise<Change[]> {
  if (transferIds.length === 0) return [];
  const rows = await tx<Pick<Row, 'state'>[]>`
    delete from ${tx(schema)}.transfers where transfer_id = any(${transferIds}) returning state`;
  return rows.map(({ state }) => ({ before: state, after: null }));
}

async function saveChanges(
  tx: Transaction,
  schema: string,
  rows: Folded<Transfer>[],
  changes: Change[],
): Promise<void> {
  const inBatches = batchChanges(changes);
  await Promise.all([
    save(tx, schema, rows, countChanges(changes)),
    inBatches.length > 0 && saveBatchCounts(tx, schema, inBatches),
  ]);
}

async function save(
  tx: Transaction,
  schema: string,
  changed: Folded<Transfer>[],
  counts: CountChange[],
): Promise<void> {
  const facts = changed.map(({ state }) => state.facts);
  // One line for each state: an array of texts would need an escape for every quote of a document.
  const states = changed.map(({ state }) => JSON.stringify(state)).join('\n');
  await tx`
    with saved as (
      insert into ${tx(schema)}.transfers
        (transfer_id, account_id, status, created_at, destination, revision, position, state)
      select transfer_id, account_id, status, created_at::timestamptz, destination, revision,
             position, state::json
        from rows from (
          unnest(
            ${facts.map(({ transfer_id }) => transfer_id)}::text[],
            ${facts.map(({ account_id }) => account_id)}::text[],
            ${changed.map(({ state }) => state.status)}::text[],
            ${facts.map(({ created_at }) => created_at)}::text[],
            ${facts.map(({ destination }) => destination)}::text[],
            ${changed.map(({ revision }) => revision)}::integer[],
            ${changed.map(({ position }) => String(position))}::bigint[]),
          string_to_table(${states}, E'\n')
        ) as c(transfer_id, account_id, status, created_at, destination, revision, position, state)
      on conflict (transfer_id) do update set
        status = excluded.status, revision = excluded.revision,
        position = excluded.position, state = excluded.state
    ),
    changes as (
      select * from unnest(
        ${counts.map(({ account }) => account)}::text[],
        ${counts.map(({ status }) => status)}::text[],
        ${counts.map(({ hour }) => hour)}::text[]::timestamptz[],
        ${counts.map(({ by }) => by)}::bigint[]) as c(account_id, status, hour, transfers)
    ),
    counted as (
      insert into ${tx(schema)}.transfer_counts as c (account_id, status, hour, transfers)
      select * from changes
      on conflict (account_id, hour, status) do update
         set transfers = c.transfers + excluded.transfers
    )
    insert into ${tx(schema)}.transfer_totals as t (status, transfers)
    select status, sum(transfers) from changes group by status
    on conflict (status) do update set transfers = t.transfers + excluded.transfers`;
}

async function saveBatchCounts(
  tx: Transaction,
  schema: string,
  changes: BatchChange[],
): Promise<void> {
  await tx`
    insert into ${tx(schema)}.batch_counts as c (batch_id, status, transfers, bytes)
    select * from unnest(
      ${changes.map(({ batch }) => batch)}::text[],
      ${changes.map(({ status }) => status)}::text[],
      ${changes.map(({ by }) => by)}::bigint[],
      ${changes.map(({ bytes }) => bytes)}::bigint[])
    on conflict (batch_id, status) do update set
      transfers = c.transfers + excluded.transfers, bytes = c.bytes + excluded.bytes`;
}

interface CountChange {
  account: string;
  status: string;
  /** Start of the hour, ISO 8601. */
  hour: string;
  by: number;
}

function countChanges(transfers: Change[]): CountChange[] {
  const changes = new Map<string, CountChange>();
  const add = (state: Transfer, by: number) => {
    const { account_id, created_at } = state.facts;
    const hour = `${created_at.slice(0, 13)}:00:00.000Z`;
    const key = JSON.stringify([account_id, state.status, hour]);
    const change = changes.get(key) ?? { account: account_id, status: state.status, hour, by: 0 };
    changes.set(key, { ...change, by: change.by + by });
  };
  for (const { before, after } of transfers) {
    if (before && before.status !== 'none') add(before, -1);
    if (after) add(after, 1);
  }
  return [...changes.values()].filter(({ by }) => by !== 0);
}

interface BatchChange {
  batch: string;
  status: string;
  by: number;
  bytes: number;
}

function batchChanges(transfers: Change[]): BatchChange[] {
  const changes = new Map<string, BatchChange>();
  const add = ({ status, facts }: Transfer, by: number) => {
    if (facts.batch_id === undefined) return;
    const key = `${facts.batch_id} ${status}`;
    const change = changes.get(key) ?? { batch: facts.batch_id, status, by: 0, bytes: 0 };
    const bytes = change.bytes + by * (facts.size_bytes ?? 0);
    changes.set(key, { ...change, by: change.by + by, bytes });
  };
  for (const { before, after } of transfers) {
    if (before && before.status !== 'none') add(before, -1);
    if (after) add(after, 1);
  }
  return [...changes.values()].filter(({ by, bytes }) => by !== 0 || bytes !== 0);
}
