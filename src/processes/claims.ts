import type { Queryable, Sql } from '../adapters/postgres/connect.ts';
import { newId } from '../domain/ids.ts';
import type { AttemptFigures } from '../domain/transfer.ts';

/** How long a claim holds without renewal, by Postgres's clock. */
export const LEASE_SECONDS = 30;

export interface Claim {
  transferId: string;
  claimId: string;
  accountId: string;
  source: string;
  destination: string;
  /** How long it waited after it was due. */
  waitedSeconds: number;
  /** What the claim before this one saved; null at the first. */
  resumeRecord: unknown;
}

/** Claims up to `limit` transfers that are due, in the order in which it is their turn: `work.claim_transfers` tells which. */
export async function claimTransfers(sql: Queryable, processId: string, limit: number): Promise<Claim[]> {
  const claimIds = Array.from({ length: limit }, () => newId('clm'));
  const rows = await sql<ClaimedRow[]>`
    select * from work.claim_transfers(${processId}, ${claimIds}::text[], ${LEASE_SECONDS} * interval '1 second')`;
  return rows.map((row) => ({
    transferId: row.transfer_id,
    claimId: row.claim_id,
    accountId: row.account_id,
    source: row.source,
    destination: row.destination,
    waitedSeconds: row.waited_seconds,
    resumeRecord: row.resume_record,
  }));
}

interface ClaimedRow {
  transfer_id: string;
  claim_id: string;
  account_id: string;
  source: string;
  destination: string;
  waited_seconds: number;
  resume_record: unknown;
}

export interface Renewal {
  transferId: string;
  claimId: string;
  figures: AttemptFigures;
}

/** Renews leases and notes how far each is. Gives the claims that still hold: the others are lost, whatever they think. */
export async function renewLeases(sql: Queryable, renewals: Renewal[]): Promise<Set<string>> {
  const rows = await sql<{ claim_id: string }[]>`
    with held as (
      select transfer_id, claim_id from work.transfer_jobs
       where transfer_id = any(${renewals.map(({ transferId }) => transferId)}::text[]) and lease_until > now()
       order by transfer_id for update
    )
    update work.transfer_jobs j
       set lease_until = now() + ${LEASE_SECONDS} * interval '1 second',
           transferred_bytes = n.transferred_bytes, size_bytes = n.size_bytes, speed_bps = n.speed_bps
      from unnest(
        ${renewals.map(({ claimId }) => claimId)}::text[],
        ${renewals.map(({ figures }) => figures.transferred_bytes)}::bigint[],
        ${renewals.map(({ figures }) => figures.size_bytes)}::bigint[],
        ${renewals.map(({ figures }) => figures.speed_bps)}::bigint[])
      as n(claim_id, transferred_bytes, size_bytes, speed_bps)
      join held using (claim_id)
     where j.transfer_id = held.transfer_id
    returning j.claim_id`;
  return new Set(rows.map(({ claim_id }) => claim_id));
}

export interface ResumeSave {
  claim: Claim;
  record: unknown;
  /** It must not be lost in a crash of Postgres. */
  durable: boolean;
}

/** Keeps what successors need to go on, and renews the leases; for each, false where the claim is lost. */
export async function saveResumeRecords(sql: Queryable, saves: ResumeSave[]): Promise<boolean[]> {
  const rows = await sql<{ claim_id: string }[]>`
    with held as (
      select transfer_id, claim_id from work.transfer_jobs
       where transfer_id = any(${saves.map(({ claim }) => claim.transferId)}::text[]) and lease_until > now()
       order by transfer_id for update
    )
    update work.transfer_jobs j
       set resume_record = n.record::jsonb, lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
      from unnest(${saves.map(({ claim }) => claim.claimId)}::text[], ${saves.map(({ record }) => JSON.stringify(record))}::text[]) as n(claim_id, record)
      join held using (claim_id)
     where j.transfer_id = held.transfer_id
    returning j.claim_id`;
  const kept = new Set(rows.map(({ claim_id }) => claim_id));
  return saves.map(({ claim }) => kept.has(claim.claimId));
}

export interface ExpiredClaim {
  transferId: string;
  claimId: string;
  status: 'queued' | 'in_progress';
  figures: AttemptFigures;
}

/** Claims whose lease has run out, oldest first. */
export async function expiredClaims(sql: Sql, limit: number): Promise<ExpiredClaim[]> {
  const rows = await sql<
    {
      transfer_id: string;
      claim_id: string;
      status: 'queued' | 'in_progress';
      transferred_bytes: bigint;
      size_bytes: bigint | null;
      speed_bps: bigint | null;
    }[]
  >`
    select transfer_id, claim_id, status, transferred_bytes, size_bytes, speed_bps from work.transfer_jobs
     where claim_id is not null and lease_until < now() order by lease_until limit ${limit}`;
  return rows.map((row) => ({
    transferId: row.transfer_id,
    claimId: row.claim_id,
    status: row.status,
    figures: {
      transferred_bytes: Number(row.transferred_bytes),
      size_bytes: row.size_bytes === null ? null : Number(row.size_bytes),
      speed_bps: row.speed_bps === null ? null : Number(row.speed_bps),
    },
  }));
}

/** Frees a transfer whose claim was given up or ran out before an attempt began. */
export async function dropClaim(sql: Sql, { transferId, claimId }: { transferId: string; claimId: string }): Promise<void> {
  await sql`
    update work.transfer_jobs set claim_id = null, claimed_by = null, lease_until = null
     where transfer_id = ${transferId} and claim_id = ${claimId} and status <> 'in_progress'`;
}
