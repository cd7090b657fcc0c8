import type { Queryable, Sql, Transaction } from '../adapters/postgres/connect.ts';
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

interface Candidate {
  transfer_id: string;
  account_id: string;
  source: string;
  destination: string;
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
  resume_record: unknown;
  waited_seconds: number;
}

/**
 * Claims up to `limit` transfers that are due, as far as the endpoints they use are not paused and have
 * connections to spare: those of the account that has the fewest moving first, within an account by rank.
 * Claims are taken one process after the other, so that two can't both take an endpoint's last place.
 */
export function claimTransfers(sql: Sql, processId: string, limit: number): Promise<Claim[]> {
  return sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('waybill claims', 0))`;
    const room = await roomAtEndpoints(tx);
    const chosen: Candidate[] = [];
    for (let saturated = -1; chosen.length < limit; ) {
      const full = [...room].filter(([, places]) => places <= 0).map(([id]) => id);
      if (full.length === saturated) break;
      saturated = full.length;
      const candidates = await nextCandidates(tx, limit - chosen.length, full, chosen);
      for (const candidate of candidates) if (takePlaces(room, candidate)) chosen.push(candidate);
    }
    return save(tx, processId, chosen);
  }) as Promise<Claim[]>;
}

/** Transfers that each endpoint can still take. Endpoints that are not named have no limit known. */
async function roomAtEndpoints(tx: Transaction): Promise<Map<string, number>> {
  const rows = await tx<{ endpoint_id: string; places: bigint }[]>`
    select e.endpoint_id, case when e.paused then 0 else e.max_connections - count(j.transfer_id) end::bigint as places
      from read.endpoints e
      left join work.transfer_jobs j on j.claim_id is not null and e.endpoint_id in (j.source_endpoint_id, j.destination_endpoint_id)
     where not e.removed group by e.endpoint_id, e.paused, e.max_connections`;
  return new Map(rows.map(({ endpoint_id, places }) => [endpoint_id, Number(places)]));
}

function nextCandidates(tx: Transaction, limit: number, full: string[], chosen: Candidate[]): Promise<Candidate[]> {
  return tx<Candidate[]>`
    with recursive accounts as (
      (select account_id from work.transfer_jobs where status <> 'in_progress' and claim_id is null order by account_id limit 1)
      union all
      select (select j.account_id from work.transfer_jobs j
               where j.status <> 'in_progress' and j.claim_id is null and j.account_id > a.account_id order by j.account_id limit 1)
        from accounts a where a.account_id is not null
    ),
    due as (
      select j.*, row_number() over (partition by j.account_id order by j.rank)
                  + (select count(*) from work.transfer_jobs m where m.claim_id is not null and m.account_id = j.account_id) as turn
        from accounts a cross join lateral (
          select transfer_id, account_id, source, destination, source_endpoint_id, destination_endpoint_id, resume_record, rank,
                 extract(epoch from now() - due_at)::float8 as waited_seconds
            from work.transfer_jobs
           where account_id = a.account_id and status <> 'in_progress' and claim_id is null and due_at <= now()
             and destination_endpoint_id <> all(${full}) and coalesce(source_endpoint_id, '') <> all(${full})
             and transfer_id <> all(${chosen.map(({ transfer_id }) => transfer_id)})
           order by rank limit ${limit}) j
    )
    select transfer_id, account_id, source, destination, source_endpoint_id, destination_endpoint_id, resume_record, waited_seconds
      from due order by turn, rank limit ${limit}`;
}

function takePlaces(room: Map<string, number>, { source_endpoint_id, destination_endpoint_id }: Candidate): boolean {
  const used = [...new Set([source_endpoint_id, destination_endpoint_id])].filter((id) => id !== null && room.has(id)) as string[];
  if (used.some((id) => (room.get(id) as number) <= 0)) return false;
  for (const id of used) room.set(id, (room.get(id) as number) - 1);
  return true;
}

async function save(tx: Transaction, processId: string, chosen: Candidate[]): Promise<Claim[]> {
  if (chosen.length === 0) return [];
  const claims = chosen.map(({ transfer_id, account_id, source, destination, resume_record, waited_seconds }) => ({
    transferId: transfer_id,
    claimId: newId('clm'),
    accountId: account_id,
    source,
    destination,
    waitedSeconds: waited_seconds,
    resumeRecord: resume_record,
  }));
  // One that was cancelled in this moment is no longer as it was found.
  const taken = await tx<{ claim_id: string }[]>`
    with found as (
      select transfer_id from work.transfer_jobs
       where transfer_id = any(${claims.map(({ transferId }) => transferId)}::text[]) and status <> 'in_progress' and claim_id is null
       order by transfer_id for update
    )
    update work.transfer_jobs j
       set claim_id = n.claim_id, claimed_by = ${processId}, lease_until = now() + ${LEASE_SECONDS} * interval '1 second', speed_bps = null
      from unnest(${claims.map(({ transferId }) => transferId)}::text[], ${claims.map(({ claimId }) => claimId)}::text[]) as n(transfer_id, claim_id)
      join found using (transfer_id)
     where j.transfer_id = n.transfer_id
    returning j.claim_id`;
  const ids = new Set(taken.map(({ claim_id }) => claim_id));
  return claims.filter(({ claimId }) => ids.has(claimId));
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
  accountId: string;
  status: 'queued' | 'in_progress';
  figures: AttemptFigures;
}

/** Claims whose lease has run out, oldest first. */
export async function expiredClaims(sql: Sql, limit: number): Promise<ExpiredClaim[]> {
  const rows = await sql<
    {
      transfer_id: string;
      claim_id: string;
      account_id: string;
      status: 'queued' | 'in_progress';
      transferred_bytes: bigint;
      size_bytes: bigint | null;
      speed_bps: bigint | null;
    }[]
  >`
    select transfer_id, claim_id, account_id, status, transferred_bytes, size_bytes, speed_bps from work.transfer_jobs
     where claim_id is not null and lease_until < now() order by lease_until limit ${limit}`;
  return rows.map((row) => ({
    transferId: row.transfer_id,
    claimId: row.claim_id,
    accountId: row.account_id,
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
