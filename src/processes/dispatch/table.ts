/*
 * The owner of `work.transfer_jobs`: every statement that reads or writes jobs is here, or in the
 * SQL function `work.claim_transfers`, which is called only from here.
 *
 * One lock order holds: a statement that writes several jobs locks them by transfer id first.
 */
import type { Fragment, Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { FILES_PER_CONNECTION } from '../../domain/protocols/index.ts';
import { SMALL_FILE_BYTES } from '../../domain/small-file.ts';
import { type AttemptFigures, PRIORITIES, type Priority } from '../../domain/transfer.ts';
import type { Claim } from './claims.ts';
import { type Job, PRIORITY_OFFSET_MS } from './decide.ts';

/** Notified whenever a job may be ready to admit, to claim or to clean up. */
export const JOBS_CHANNEL = 'waybill_jobs';

/** How long a claim is valid without a renewal, by the clock of Postgres. */
export const LEASE_SECONDS = 30;

/** Jobs beyond this number are not counted: an estimate hours ahead need not be exact. */
const MAX_COUNTED = 100_000;

/** Revision before the first event, of a job that waits until the log shows its transfer again. */
const UNKNOWN = -1;

export interface FigureColumns {
  transferred_bytes: bigint;
  size_bytes: bigint | null;
  speed_bps: bigint | null;
}

export function toFigures(row: FigureColumns): AttemptFigures {
  const { transferred_bytes, size_bytes, speed_bps } = row;
  return {
    transferred_bytes: Number(transferred_bytes),
    size_bytes: size_bytes === null ? null : Number(size_bytes),
    speed_bps: speed_bps === null ? null : Number(speed_bps),
  };
}

const lease = (sql: Queryable) => sql`now() + ${LEASE_SECONDS} * interval '1 second'`;

// What the log says: called by the consumer.

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

// Claims and leases: see claims.ts.

export async function claimJobs(
  sql: Queryable,
  processId: string,
  claimIds: string[],
  small: boolean,
): Promise<Claim[]> {
  return sql<Claim[]>`
    select transfer_id as "transferId", claim_id as "claimId", account_id as "accountId",
           source, destination, waited_seconds as "waitedSeconds", resume_record as "resumeRecord"
      from work.claim_transfers(
        ${processId}, ${claimIds}::text[], ${LEASE_SECONDS} * interval '1 second',
        ${JSON.stringify(small ? FILES_PER_CONNECTION : {})}::text::jsonb, ${SMALL_FILE_BYTES}::bigint)`;
}

/** Returns the CTE `held`: the jobs whose leases still run, locked. */
function heldJobs(sql: Queryable, transferIds: string[]) {
  return sql`
    held as (
      select transfer_id, claim_id from work.transfer_jobs
       where transfer_id = any(${transferIds}::text[]) and lease_until > now()
       order by transfer_id for update
    )`;
}

/** A claim with what its holder saves in the job. */
export type HeldClaim<Saved> = { transferId: string; claimId: string } & Saved;

/**
 * Renews leases and saves the progress of each attempt. Returns the ids of the claims that are
 * still valid. The other claims are lost.
 */
export async function renewJobs(
  sql: Queryable,
  claims: HeldClaim<{ figures: AttemptFigures }>[],
): Promise<Set<string>> {
  const rows = await sql<{ claim_id: string }[]>`
    with ${heldJobs(
      sql,
      claims.map(({ transferId }) => transferId),
    )}
    update work.transfer_jobs j
       set lease_until = ${lease(sql)}, transferred_bytes = n.transferred_bytes,
           size_bytes = n.size_bytes, speed_bps = n.speed_bps
      from unnest(
        ${claims.map(({ claimId }) => claimId)}::text[],
        ${claims.map(({ figures }) => figures.transferred_bytes)}::bigint[],
        ${claims.map(({ figures }) => figures.size_bytes)}::bigint[],
        ${claims.map(({ figures }) => figures.speed_bps)}::bigint[])
      as n(claim_id, transferred_bytes, size_bytes, speed_bps)
      join held using (claim_id)
     where j.transfer_id = held.transfer_id
    returning j.claim_id`;
  return new Set(rows.map(({ claim_id }) => claim_id));
}

/** Renews leases and saves resume records, unless a later one is saved. Returns as `renewJobs`. */
export async function saveRecords(
  sql: Queryable,
  claims: HeldClaim<{ record: { saves: number } }>[],
): Promise<Set<string>> {
  const rows = await sql<{ claim_id: string }[]>`
    with ${heldJobs(
      sql,
      claims.map(({ transferId }) => transferId),
    )}
    update work.transfer_jobs j
       set resume_record = n.record::jsonb, lease_until = ${lease(sql)}
      from unnest(
        ${claims.map(({ claimId }) => claimId)}::text[],
        ${claims.map(({ record }) => record.saves)}::integer[],
        ${claims.map(({ record }) => JSON.stringify(record))}::text[])
      as n(claim_id, saves, record)
      join held using (claim_id)
     where j.transfer_id = held.transfer_id
       and coalesce((j.resume_record ->> 'saves')::integer, 0) <= n.saves
    returning j.claim_id`;
  return new Set(rows.map(({ claim_id }) => claim_id));
}

export interface ExpiredJob extends FigureColumns {
  transfer_id: string;
  claim_id: string;
}

/**
 * Returns expired claims with what the next attempt continues from: only that is progress, however
 * many bytes the lost mover had sent.
 */
export async function expiredJobs(sql: Sql, limit: number, except: string[]) {
  return sql<ExpiredJob[]>`
    select transfer_id, claim_id, size_bytes, speed_bps,
           coalesce((resume_record #>> '{destination,bytes}')::bigint, 0) as transferred_bytes
      from work.transfer_jobs
     where claim_id is not null and lease_until < now() and transfer_id <> all(${except}::text[])
     order by lease_until limit ${limit}`;
}

/** Frees a job whose claim was released or expired before an attempt began. */
export async function freeJob(
  sql: Sql,
  { transferId, claimId }: { transferId: string; claimId: string },
): Promise<void> {
  await sql`
    update work.transfer_jobs set claim_id = null, claimed_by = null, lease_until = null
     where transfer_id = ${transferId} and claim_id = ${claimId} and status <> 'in_progress'`;
}

/** Returns the progress of the current attempt of a transfer. Null without an attempt. */
export async function progressOf(sql: Sql, transferId: string): Promise<AttemptFigures | null> {
  const [row] = await sql<FigureColumns[]>`
    select transferred_bytes, size_bytes, speed_bps from work.transfer_jobs
     where transfer_id = ${transferId} and claim_id is not null`;
  return row ? toFigures(row) : null;
}

// Figures, for people and estimates.

/** Returns the number of transfers that are due and wait for a mover. */
export async function countDueJobs(sql: Sql): Promise<number> {
  const [row] = await sql<[{ waiting: number }]>`
    select count(*)::integer as waiting
      from work.transfer_jobs where claim_id is null and due_at <= now()`;
  return row.waiting;
}

export interface QueueDepth {
  priority: Priority;
  /** Transfers that wait for a mover. */
  due: number;
  /** Transfers that wait for their next attempt. */
  later: number;
  moving: number;
  /** Bits per second of the moving transfers together. */
  speed_bps: number;
}

/** Returns the waiting and moving transfers of each priority. */
export async function queueDepth(sql: Sql): Promise<QueueDepth[]> {
  const rows = await sql<QueueDepth[]>`
    select priority, count(*) filter (where claim_id is null and due_at <= now())::float8 as due,
           count(*) filter (where claim_id is null and due_at > now())::float8 as later,
           count(claim_id)::float8 as moving,
           coalesce(sum(speed_bps) filter (where claim_id is not null), 0)::float8 as speed_bps
      from work.transfer_jobs group by priority`;
  const none = { due: 0, later: 0, moving: 0, speed_bps: 0 };
  return PRIORITIES.map(
    (priority) => rows.find((row) => row.priority === priority) ?? { priority, ...none },
  );
}

/** Selects one row: `waiting` and `moving` transfers. */
export function jobTotals(sql: Queryable) {
  return sql`
    select count(*) filter (where claim_id is null and due_at <= now())::integer as waiting,
           count(claim_id)::integer as moving
      from work.transfer_jobs`;
}

/**
 * Selects one row: the waiting transfers as `queued`, and as `ahead`, by priority, those that come
 * before a new transfer.
 */
export function jobsAhead(sql: Queryable) {
  const before = (priority: Priority) =>
    sql`count(*) filter (
      where due and rank <= now() + ${PRIORITY_OFFSET_MS[priority]} * interval '1 millisecond')`;
  return sql`
    select count(*)::float8 as queued,
           jsonb_build_object('high', ${before('high')}, 'normal', ${before('normal')},
                              'low', ${before('low')}) as ahead
      from (select rank, claim_id is null and due_at <= now() as due from work.transfer_jobs
             where status <> 'in_progress' limit ${MAX_COUNTED}) waiting`;
}

/**
 * Selects the transfers that a mover may claim now: the first `atMost` of each route. `closed` is
 * an expression: the endpoints without a free place.
 */
export function dueTransfers(sql: Queryable, closed: Fragment, atMost: number) {
  return sql`select * from work.due_transfers(${closed}, ${atMost}, '{}')`;
}

/** Selects all columns of all jobs, to join them with other tables. */
export function jobs(sql: Queryable) {
  return sql`select * from work.transfer_jobs`;
}

/** The condition that a transfer has a job. `transferId` is an expression. */
export function hasJob(sql: Queryable, transferId: ReturnType<typeof jobs>) {
  return sql`exists (select from work.transfer_jobs j where j.transfer_id = ${transferId})`;
}
