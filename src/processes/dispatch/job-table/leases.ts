/*
 * The statements of claims on jobs and their leases: see claims.ts.
 */
import type { Fragment, Queryable, Sql } from '../../../adapters/postgres/connect.ts';
import { FILES_PER_CONNECTION } from '../../../domain/protocols/index.ts';
import { SMALL_FILE_BYTES } from '../../../domain/small-file.ts';
import type { AttemptFigures } from '../../../domain/transfers/transfer.ts';
import type { FigureColumns } from './figures.ts';

export interface Claim {
  transferId: string;
  claimId: string;
  accountId: string;
  source: string;
  destination: string;
  /** How long the job waited after it was due. */
  waitedSeconds: number;
  /** The record that an earlier claim saved. Null if none did. */
  resumeRecord: unknown;
}

/** How long a claim is valid without a renewal, by the clock of Postgres. */
export const LEASE_SECONDS = 30;

/** The end of a lease that begins now. */
export const lease = (sql: Queryable) => sql`now() + ${LEASE_SECONDS} * interval '1 second'`;

export async function claimJobs(
  sql: Queryable,
  processId: string,
  claimIds: string[],
  small: boolean,
  leftToOthers: string[],
): Promise<Claim[]> {
  return sql<Claim[]>`
    select transfer_id as "transferId", claim_id as "claimId", account_id as "accountId",
           source, destination, waited_seconds as "waitedSeconds", resume_record as "resumeRecord"
      from work.claim_transfers(
        ${processId}, ${claimIds}::text[], ${LEASE_SECONDS} * interval '1 second',
        ${JSON.stringify(small ? FILES_PER_CONNECTION : {})}::text::jsonb, ${SMALL_FILE_BYTES}::bigint,
        ${leftToOthers}::text[])`;
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
  committing: { size: number; sha256: string } | null;
}

/**
 * Returns expired claims with what the next attempt continues from: only that is progress, however
 * many bytes the lost mover had sent.
 */
export async function expiredJobs(sql: Sql, limit: number, except: string[]) {
  return sql<ExpiredJob[]>`
    select transfer_id, claim_id, size_bytes, speed_bps,
           coalesce((resume_record #>> '{destination,bytes}')::bigint, 0) as transferred_bytes,
           nullif(resume_record -> 'committing', 'null') as committing
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

/**
 * Selects the transfers that a mover may claim now: the first `atMost` of each route. `closed` is
 * an expression: the endpoints without a free place.
 */
export function dueTransfers(sql: Queryable, closed: Fragment, atMost: number) {
  return sql`select * from work.due_transfers(${closed}, ${atMost}, '{}')`;
}

/**
 * Selects the transfers for which a claim of one transfer keeps places. `room` is an expression: an
 * object with the free places by endpoint. `unusable` is another: endpoints that cannot be used.
 */
export function starvedTransfers(sql: Queryable, room: Fragment, unusable: Fragment) {
  return sql`
    select * from work.starved_transfers(work.claimable_routes(), ${room}, ${unusable}, 1)`;
}
