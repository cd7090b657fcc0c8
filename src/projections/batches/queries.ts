import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import {
  type Batch,
  type BatchStatus,
  batchDecider,
  type RejectedItem,
} from '../../domain/batches/batch.ts';
import { idsOfBatch } from '../../domain/batches/items.ts';
import { streamName } from '../../domain/events/streams.ts';
import { isId } from '../../domain/ids.ts';
import type { Transfer, TransferStatus } from '../../domain/transfers/transfer.ts';
import { foldStream, type Stores } from '../fold.ts';
import type { Page } from '../lists.ts';
import { batchOf, hasBatch } from '../transfers/columns.ts';

/** The transfers of a batch by status, and their bytes. */
export interface BatchCounts {
  transfers: Record<TransferStatus, number>;
  /** Known sizes of all transfers, in bytes. */
  bytes: number;
  /** Of the completed transfers. */
  completedBytes: number;
}

/** A batch with what its transfers show. */
export type CountedBatch = Batch & { counts: BatchCounts };

interface Row {
  state: Batch;
  counts: { status: TransferStatus; transfers: number; bytes: number }[] | null;
}

/** Returns a batch of an account, or null. */
export async function findBatch(
  { sql, store }: Stores,
  accountId: string,
  batchId: string,
): Promise<CountedBatch | null> {
  if (!isId('bat', batchId)) return null;
  // The read model of transfers has the counts, and may be ahead of that of batches.
  const [{ state: shown, counts }] = await sql<[Pick<Row, 'counts'> & { state: Batch | null }]>`
    select state, ${countsOf(sql)} as counts
      from (select ${batchId}::text as batch_id) b left join read.batches using (batch_id)`;
  const state =
    shown ?? (await foldStream(store, streamName('batch', batchId), batchDecider))?.state;
  return state?.account_id === accountId ? toCounted({ state, counts }) : null;
}

/** Returns a page of an account's batches, newest first, and the total of matches. */
export async function listBatches(
  sql: Sql,
  accountId: string,
  status: BatchStatus | undefined,
  { limit, offset }: Page,
): Promise<{ batches: CountedBatch[]; total: number }> {
  const matches = sql`
    account_id = ${accountId} ${status === undefined ? sql`` : sql`and status = ${status}`}`;
  const [rows, [counted]] = await Promise.all([
    sql<Row[]>`
      select state, ${countsOf(sql)} as counts
        from (select batch_id, state, created_at from read.batches where ${matches}
               order by created_at desc, batch_id desc limit ${limit} offset ${offset}) b
       order by created_at desc, batch_id desc`,
    sql<[{ total: bigint }]>`select count(*) as total from read.batches where ${matches}`,
  ]);
  return { batches: rows.map(toCounted), total: Number(counted.total) };
}

/** Returns all batches that have not ended, of every account, oldest first. */
export async function openBatches(sql: Sql): Promise<CountedBatch[]> {
  const rows = await sql<Row[]>`
    select state, ${countsOf(sql)} as counts from read.batches b where not ended order by batch_id`;
  return rows.map(toCounted);
}

/** Returns the batch that retries a batch and has not created all its transfers yet, or null. */
export async function retryInCreation(
  sql: Sql,
  accountId: string,
  batchId: string,
): Promise<string | null> {
  const [row] = await sql<{ batch_id: string }[]>`
    select batch_id from read.batches
     where account_id = ${accountId} and status = 'creating'
       and state->'source' @> ${sql.json({ type: 'retry', batch_id: batchId })}
     limit 1`;
  return row?.batch_id ?? null;
}

/** Returns items that cannot become transfers, with their reasons, and their number. */
export async function listRejected(
  sql: Sql,
  batchId: string,
  { limit, offset }: Page,
): Promise<{ items: (RejectedItem & { item: number })[]; total: number }> {
  const [rows, [counted]] = await Promise.all([
    sql<{ item: number; source: string; code: string; message: string }[]>`
      select item, source, code, message from read.rejected_items
       where batch_id = ${batchId} order by item limit ${limit} offset ${offset}`,
    sql<[{ total: bigint }]>`
      select count(*) as total from read.rejected_items where batch_id = ${batchId}`,
  ]);
  const items = rows.map(({ item, source, ...error }) => ({ item, source_uri: source, error }));
  return { items, total: Number(counted.total) };
}

/** Returns transfers of a batch in these statuses, in their order, at most `limit`. */
export async function transfersOfBatch(
  sql: Sql,
  batchId: string,
  statuses: readonly TransferStatus[],
  limit: number,
): Promise<{ transferIds: string[]; hasMore: boolean }> {
  const rows = await sql<{ transfer_id: string }[]>`
    select transfer_id
      from unnest(${[...statuses]}::text[]) with ordinality as s(status, place) cross join lateral (
        select transfer_id from read.transfers t
         where ${hasBatch(sql)} and ${batchOf(sql)} = ${batchId} and t.status = s.status
         limit ${limit + 1}) found
     order by place, transfer_id limit ${limit + 1}`;
  const transferIds = rows.map(({ transfer_id }) => transfer_id);
  return { transferIds: transferIds.slice(0, limit), hasMore: transferIds.length > limit };
}

/** How many transfers `failedOfBatch` reads at a time. */
const READ_AT_ONCE = 1_000;

/**
 * Yields the failed transfers of a batch, or those after one of its ids, in the order of their
 * items. That one may have left the log.
 */
export async function* failedOfBatch(
  sql: Sql,
  batchId: string,
  start: string | null,
): AsyncGenerator<Transfer[], void, void> {
  const { before, last } = idsOfBatch(batchId);
  for (let after: string | null = start ?? before; after !== null; ) {
    // Without `hasBatch`: by the index of batches, each query would read and sort all that is left.
    const rows: { transfer_id: string; state: Transfer }[] = await sql`
      select transfer_id, state from read.transfers
       where transfer_id > ${after} and transfer_id <= ${last}
         and status = 'failed' and ${batchOf(sql)} = ${batchId}
       order by transfer_id limit ${READ_AT_ONCE}`;
    if (rows.length > 0) yield rows.map(({ state }) => state);
    after = rows.length < READ_AT_ONCE ? null : (rows.at(-1)?.transfer_id ?? null);
  }
}

function countsOf(sql: Queryable) {
  return sql`(
    select jsonb_agg(jsonb_build_object(
             'status', status, 'transfers', transfers, 'bytes', bytes))
      from read.batch_counts c where c.batch_id = b.batch_id and transfers <> 0)`;
}

function toCounted({ state, counts }: Row): CountedBatch {
  const of = (wanted: TransferStatus) => counts?.find(({ status }) => status === wanted);
  const number = (status: TransferStatus) => of(status)?.transfers ?? 0;
  const transfers = {
    pending: number('pending'),
    queued: number('queued'),
    in_progress: number('in_progress'),
    completed: number('completed'),
    failed: number('failed'),
    cancelled: number('cancelled'),
  };
  const bytes = counts?.reduce((sum, each) => sum + each.bytes, 0) ?? 0;
  const completedBytes = of('completed')?.bytes ?? 0;
  return { ...state, counts: { transfers, bytes, completedBytes } };
}
