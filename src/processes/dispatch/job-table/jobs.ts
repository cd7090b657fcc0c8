/*
 * This folder owns `work.transfer_jobs`: every statement that reads or writes jobs is here, or in
 * the SQL function `work.claim_transfers` and those that it uses, which are called only from here.
 * This file has the jobs as the log says them, leases.ts the claims of movers, figures.ts counts
 * and progress.
 *
 * One lock order holds: a statement that writes several jobs locks them by transfer id first.
 */
import type { Fragment, Queryable, Sql } from '../../../adapters/postgres/connect.ts';
import { type Job, PRIORITY_OFFSET_MS } from '../decide.ts';
import { lease } from './leases.ts';

/** Notified whenever a job may be ready to admit, to claim or to clean up. */
export const JOBS_CHANNEL = 'waybill_jobs';

/** Revision before the first event, of a job that waits until the log shows its transfer again. */
const UNKNOWN = -1;

/** Returns the jobs of these transfers by transfer id. */
export function readJobs(sql: Queryable, transferIds: string[]): Promise<Map<string, Job>> {
  return selectJobs(sql, transferIds, sql``);
}

/** Does the same, and locks them. */
export function lockJobs(tx: Queryable, transferIds: string[]): Promise<Map<string, Job>> {
  return selectJobs(tx, transferIds, tx`order by transfer_id for update`);
}

async function selectJobs(
  sql: Queryable,
  transferIds: string[],
  locking: Fragment,
): Promise<Map<string, Job>> {
  const rows = await sql<Omit<Job, 'figures'>[]>`
    select transfer_id, account_id, status, revision, priority, source, destination,
           source_endpoint_id, destination_endpoint_id, claim_id, due_at,
           -- a job that waits for its next attempt keeps waiting when another event changes it
           greatest(0, ceil(extract(epoch from due_at - now()) * 1000))::float8 as delay
      from work.transfer_jobs
     where transfer_id = any(${transferIds}::text[]) ${locking}`;
  return new Map(rows.map((row) => [row.transfer_id, { ...row, figures: null }]));
}

/** Writes jobs. Skips a job that has seen a later event. */
export async function saveJobs(sql: Queryable, jobs: Job[]): Promise<void> {
  if (jobs.length === 0) return;
  const claimable = jobs.some(({ status }) => status !== 'in_progress');
  await sql`
    with saved as (
      insert into work.transfer_jobs as j (
        transfer_id, account_id, status, revision, priority, source, destination,
        source_endpoint_id, destination_endpoint_id, claim_id, lease_until, due_at, rank,
        size_bytes, transferred_bytes)
      select n.transfer_id, n.account_id, n.status, n.revision, n.priority, n.source, n.destination,
             n.source_endpoint_id, n.destination_endpoint_id, n.claim_id,
             case when n.claim_id is not null then ${lease(sql)} end, due_at,
             due_at + n.priority_offset * interval '1 millisecond',
             n.size_bytes, coalesce(n.transferred_bytes, 0)
        from unnest(
          ${jobs.map((job) => job.transfer_id)}::text[],
          ${jobs.map((job) => job.account_id)}::text[],
          ${jobs.map((job) => job.status)}::text[],
          ${jobs.map((job) => job.revision)}::integer[],
          ${jobs.map((job) => job.priority)}::text[],
          ${jobs.map((job) => job.source)}::text[],
          ${jobs.map((job) => job.destination)}::text[],
          ${jobs.map((job) => job.source_endpoint_id)}::text[],
          ${jobs.map((job) => job.destination_endpoint_id)}::text[],
          ${jobs.map((job) => job.claim_id)}::text[],
          ${jobs.map((job) => job.due_at)}::timestamptz[],
          ${jobs.map((job) => job.delay)}::bigint[],
          ${jobs.map((job) => PRIORITY_OFFSET_MS[job.priority])}::integer[],
          ${jobs.map((job) => job.figures?.size_bytes ?? null)}::bigint[],
          ${jobs.map((job) => job.figures?.transferred_bytes ?? null)}::bigint[])
        as n(transfer_id, account_id, status, revision, priority, source, destination,
             source_endpoint_id, destination_endpoint_id, claim_id, not_before, delay,
             priority_offset, size_bytes, transferred_bytes)
       cross join lateral (
         select least(n.not_before, now() + n.delay * interval '1 millisecond') as due_at) d
      on conflict (transfer_id) do update set
        status = excluded.status, revision = excluded.revision, priority = excluded.priority,
        due_at = excluded.due_at, rank = excluded.rank, claim_id = excluded.claim_id,
        claimed_by = case when j.claim_id = excluded.claim_id then j.claimed_by end,
        -- the claim in the log is valid, even if the row has another
        lease_until = case when excluded.claim_id is null then null
                           when j.claim_id = excluded.claim_id then j.lease_until
                           else ${lease(sql)} end,
        size_bytes = coalesce(excluded.size_bytes, j.size_bytes),
        transferred_bytes = greatest(excluded.transferred_bytes, j.transferred_bytes)
      where j.revision < excluded.revision
    )
    select pg_notify(${JOBS_CHANNEL}, '') where ${claimable}`;
}

/** Returns the CTE `deleted`: it deletes jobs and has what a clean-up needs of them. */
export function deletedJobs(sql: Queryable, transferIds: string[], only = sql`true`) {
  return sql`
    locked as (
      select transfer_id from work.transfer_jobs
       where transfer_id = any(${transferIds}::text[]) and ${only} order by transfer_id for update
    ),
    deleted as (
      delete from work.transfer_jobs j using locked where j.transfer_id = locked.transfer_id
      returning j.transfer_id, account_id, destination, resume_record
    )`;
}

/** Returns `deletedJobs` of the jobs whose transfers the log has not shown. */
export function deletedUnknownJobs(sql: Queryable, transferIds: string[]) {
  return deletedJobs(sql, transferIds, sql`revision = ${UNKNOWN}`);
}

/** Prepares all jobs for a log that is read from its beginning: see `rebuildDispatch`. */
export async function forgetRevisions(tx: Queryable): Promise<void> {
  await tx`
    update work.transfer_jobs
       set revision = ${UNKNOWN}, status = 'in_progress',
           claim_id = null, claimed_by = null, lease_until = null
     where claim_id is null or lease_until < now()`;
}

/** Returns the transfers that the log has not shown since the jobs were derived again. */
export async function unknownJobs(sql: Sql): Promise<string[]> {
  return ids(await sql`select transfer_id from work.transfer_jobs where revision = ${UNKNOWN}`);
}

/** Returns up to `limit` pending transfers that no mover has claimed, by rank. */
export async function pendingJobs(sql: Sql, limit: number, except: string[]): Promise<string[]> {
  return ids(
    await sql`
      select transfer_id from work.transfer_jobs
       where status = 'pending' and claim_id is null and transfer_id <> all(${except}::text[])
       order by rank limit ${limit}`,
  );
}

/** Returns the ids of the open transfers that use an endpoint, oldest first, at most ten. */
export async function openTransfersOf(sql: Queryable, endpointId: string): Promise<string[]> {
  return ids(
    await sql`
    select transfer_id from work.transfer_jobs
     where ${endpointId} in (source_endpoint_id, destination_endpoint_id)
     order by transfer_id limit 10`,
  );
}

function ids(rows: readonly Record<string, unknown>[]): string[] {
  return rows.map(({ transfer_id }) => transfer_id as string);
}

/** Selects all columns of all jobs, to join them with other tables. */
export function jobs(sql: Queryable) {
  return sql`select * from work.transfer_jobs`;
}

/** The condition that a transfer has a job. `transferId` is an expression. */
export function hasJob(sql: Queryable, transferId: ReturnType<typeof jobs>) {
  return sql`exists (select from work.transfer_jobs j where j.transfer_id = ${transferId})`;
}
