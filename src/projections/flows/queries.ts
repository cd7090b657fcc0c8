import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type {
  Flow,
  FlowStatus,
  ListingError,
  RunCompleted,
  ShownFlow,
} from '../../domain/flows/flow.ts';
import type { TransferStatus } from '../../domain/transfers/transfer.ts';
import { matches as hasMatch, type Page } from '../lists.ts';
import { batchOf, hasBatch, isRetry, retryOf } from '../transfers/columns.ts';

/** Returns a flow, also a removed one, or null. */
export async function shownFlow(sql: Sql, flowId: string): Promise<ShownFlow | null> {
  const [row] = await sql<ShownFlow[]>`
    select state, revision, position from read.flows where flow_id = ${flowId}`;
  return row ?? null;
}

export interface FlowFilter {
  status?: Exclude<FlowStatus, 'removed'> | undefined;
  /** Words, all of which the flow has. */
  q?: string | undefined;
}

/** Returns a page of an account's flows, newest first, and the total of matches. */
export async function listFlows(
  sql: Sql,
  accountId: string,
  { status, q }: FlowFilter,
  { limit, offset }: Page,
): Promise<{ flows: Flow[]; total: number }> {
  const matches = sql`
    account_id = ${accountId} and status <> 'removed'
    ${status === undefined ? sql`` : sql`and status = ${status}`}`;
  const inOrder = sql`
    select state from read.flows where ${matches} order by created_at desc, flow_id desc`;
  if (q !== undefined) {
    // An account has few flows, so all of them are read.
    const rows = await sql<{ state: Flow }[]>`${inOrder}`;
    const flows = rows.map(({ state }) => state).filter((flow) => isFound(q, flow));
    return { flows: flows.slice(offset, offset + limit), total: flows.length };
  }
  const [rows, [counted]] = await Promise.all([
    sql<{ state: Flow }[]>`${inOrder} limit ${limit} offset ${offset}`,
    sql<[{ total: bigint }]>`select count(*) as total from read.flows where ${matches}`,
  ]);
  return { flows: rows.map(({ state }) => state), total: Number(counted.total) };
}

function isFound(q: string, { flow_id, name, source, destination_uri }: Flow): boolean {
  return hasMatch(q, [flow_id, name, source.uri, destination_uri]);
}

export async function countFlows(sql: Sql, accountId: string): Promise<number> {
  const [row] = await sql<[{ flows: number }]>`
    select count(*)::integer as flows from read.flows
     where account_id = ${accountId} and status <> 'removed'`;
  return row.flows;
}

/** Returns the active flows of all accounts, oldest first. */
export async function activeFlows(sql: Sql): Promise<Flow[]> {
  const rows = await sql<{ state: Flow }[]>`
    select state from read.flows where status = 'active' order by created_at, flow_id`;
  return rows.map(({ state }) => state);
}

/** Returns the flows of all accounts that may have work, also paused ones with a requested run. */
export async function flowsAtWork(sql: Sql): Promise<ShownFlow[]> {
  return sql<ShownFlow[]>`
    select state, revision, position from read.flows
     where busy or (status = 'paused' and jsonb_typeof(state -> 'requested') = 'object')
        or (status = 'paused' and jsonb_typeof(state -> 'skipping') = 'object')
     order by flow_id`;
}

/** How far the batch of an open run is. */
export interface RunProgress {
  batch_id: string;
  /** The revision of `batch.completed`. Null until then. */
  completed_at_revision: number | null;
  /** True if a file waits for its first attempt, or moves: not only for another attempt. */
  moving: boolean;
}

export async function progressOfRuns(sql: Sql, batchIds: string[]): Promise<RunProgress[]> {
  if (batchIds.length === 0) return [];
  return sql<RunProgress[]>`
    select batch_id, case when ended then revision end as completed_at_revision,
           not ended and (status = 'creating' or exists (
             select from read.transfers t
              where ${hasBatch(sql)} and ${batchOf(sql)} = b.batch_id
                and (status in ('pending', 'in_progress')
                     or (status = 'queued' and state ->> 'not_before' is null)))) as moving
      from read.batches b where batch_id = any(${batchIds}::text[])`;
}

/** A version of a file that a flow has taken or skipped. */
export interface KnownFile {
  file_key: string;
  /** Null if the flow skips it. */
  run_id: string | null;
  transfer_id: string | null;
  attempts: number;
  /** Of its transfer. Null if the read model of transfers does not show it, or if it has none. */
  status: TransferStatus | null;
  failed_at: string | null;
  /** With which its transfer has failed, or its last attempt. */
  error_code: string | null;
  /** True if another transfer repeats its transfer. */
  retried: boolean;
}

export async function knownFiles(
  sql: Sql,
  flowId: string,
  keys: string[],
): Promise<Map<string, KnownFile>> {
  const rows = await sql<KnownFile[]>`
    select file_key, run_id, transfer_id, attempts, t.status, t.state ->> 'failed_at' as failed_at,
           t.state -> 'facts' -> 'error' ->> 'code' as error_code,
           t.status = 'failed' and exists (
             select from (
               select ${retryOf(sql)} as retry_of from read.transfers where ${isRetry(sql)}) r
              where r.retry_of = t.transfer_id) is true as retried
      from read.flow_files f left join read.transfers t using (transfer_id)
     where flow_id = ${flowId} and file_key = any(${keys}::text[])`;
  return new Map(rows.map((row) => [row.file_key, row]));
}

export interface FlowRun {
  run_id: string;
  batch_id: string | null;
  reason: 'schedule' | 'request';
  status: 'requested' | 'listing' | 'open' | 'empty' | 'failed' | RunCompleted['status'];
  error: ListingError | null;
  counts: RunCompleted['counts'] | null;
  bytes: number | null;
  started_at: string;
  ended_at: string | null;
}

/** Returns a page of the runs of a flow, newest first, and their number. */
export async function listRuns(
  sql: Sql,
  flowId: string,
  { limit, offset }: Page,
): Promise<{ runs: FlowRun[]; total: number }> {
  const [runs, [counted]] = await Promise.all([
    sql<FlowRun[]>`
      select ${runColumns(sql)} from read.flow_runs where flow_id = ${flowId}
       order by run_id desc limit ${limit} offset ${offset}`,
    sql<[{ total: bigint }]>`
      select count(*) as total from read.flow_runs where flow_id = ${flowId}`,
  ]);
  return { runs: [...runs], total: Number(counted.total) };
}

/** Returns the last runs of each flow, newest first. */
export async function lastRuns(
  sql: Sql,
  flowIds: string[],
  limit: number,
): Promise<Map<string, FlowRun[]>> {
  const rows = await sql<(FlowRun & { flow_id: string })[]>`
    select f.flow_id, r.*
      from unnest(${flowIds}::text[]) as f(flow_id) cross join lateral (
        select ${runColumns(sql)} from read.flow_runs r
         where r.flow_id = f.flow_id order by run_id desc limit ${limit}) r`;
  return Map.groupBy(rows, ({ flow_id }) => flow_id);
}

function runColumns(sql: Queryable) {
  return sql`
    run_id, batch_id, reason, status, error, counts, bytes::float8 as bytes, started_at, ended_at`;
}

export interface FlowFile {
  source_uri: string;
  version: string;
  run_id: string | null;
  transfer_id: string | null;
  /** Null if the read model does not show its transfer, or if it has none. */
  status: TransferStatus | null;
  /** True if its transfer left the log by retention. */
  left_log: boolean;
  error: { code: string; message: string } | null;
  attempts: number;
  taken_at: string;
}

/** Returns a page of the versions that a flow took or skipped, newest first, and their number. */
export async function listFiles(
  sql: Sql,
  flowId: string,
  { limit, offset }: Page,
): Promise<{ files: FlowFile[]; total: number }> {
  const [files, [counted]] = await Promise.all([
    sql<FlowFile[]>`
      select source_uri, version, run_id, transfer_id, t.status, attempts, taken_at,
             coalesce(f.error, (t.state -> 'facts' -> 'error')::jsonb) as error,
             r.transfer_id is not null as left_log
        from (select * from read.flow_files where flow_id = ${flowId}
               order by position desc, item desc, file_key limit ${limit} offset ${offset}) f
        left join read.transfers t using (transfer_id)
        left join read.retained_transfers r using (transfer_id)
       order by f.position desc, item desc, file_key`,
    sql<[{ total: bigint }]>`
      select count(*) as total from read.flow_files where flow_id = ${flowId}`,
  ]);
  return { files: [...files], total: Number(counted.total) };
}
