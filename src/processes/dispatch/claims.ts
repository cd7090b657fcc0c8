/*
 * Claims on jobs: they say which mover works on which transfer. The statements are in
 * job-table/leases.ts.
 *
 * A claim is a lease of 30 seconds on a row of `work.transfer_jobs`. It has these states:
 * - Taken: `claim_transfers` wrote its id into a job that is due. The log does not know it yet.
 * - Begun: the mover appended `transfer.in_progress` with the id of the claim.
 * - Expired: `lease_until` has passed. Admission appends `transfer.queued` with `mover_lost`, or
 *   frees the job if the attempt never began (admission.ts).
 * The event that ends the attempt also removes the claim from the job (decide.ts).
 *
 * Rows never decide. Every append of a mover names its claim (fencing), so the stream rejects a
 * mover whose claim was replaced. The leases only keep two movers from the same work.
 *
 * What can go wrong:
 * - A renewal comes after the lease expired. It is rejected, even if the job has no other claim.
 * - A call gets no answer, is repeated, and lands late. `saves` rises with each resume record, so a
 *   late call replaces no later record.
 * - The transfer is cancelled between its choice and its claim. `claim_transfers` skips it.
 *
 * It relies on the clock of Postgres alone for leases, on the SQL function `work.claim_transfers`,
 * which runs one call at a time, and on one lock order: rows are locked by transfer id.
 */
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { newId } from '../../domain/ids.ts';
import type { AttemptFigures } from '../../domain/transfers/transfer.ts';
import { toFigures } from './job-table/figures.ts';
import { type Claim, claimJobs, expiredJobs, saveRecords } from './job-table/leases.ts';

/**
 * Claims up to `limit` due transfers. `work.claim_transfers` decides which, and in which order.
 * With `small`, an endpoint at which only small files move takes several for each connection. It
 * claims nothing at the endpoints in `leftToOthers`.
 */
export function claimTransfers(
  sql: Queryable,
  processId: string,
  limit: number,
  { small = false, leftToOthers = [] }: { small?: boolean; leftToOthers?: string[] } = {},
): Promise<Claim[]> {
  const claimIds = Array.from({ length: limit }, () => newId('clm'));
  return claimJobs(sql, processId, claimIds, small, leftToOthers);
}

export interface ResumeSave {
  claim: Claim;
  /** `saves` counts the records of a transfer: it rises with each. */
  record: { saves: number };
  /** True if a crash of Postgres must not lose the record. */
  durable: boolean;
}

/**
 * Saves the records from which successors resume, and renews the leases. Returns false for each
 * lost claim. Safe to repeat: a call that got no answer and lands late replaces no later record.
 */
export async function saveResumeRecords(sql: Queryable, saves: ResumeSave[]): Promise<boolean[]> {
  const kept = await saveRecords(
    sql,
    saves.map(({ claim, record }) => ({ ...claim, record })),
  );
  return saves.map(({ claim }) => kept.has(claim.claimId));
}

export interface ExpiredClaim {
  transferId: string;
  claimId: string;
  figures: AttemptFigures;
  /** What a mover was giving its name. Null if none came that far. */
  committing: { size: number; sha256: string } | null;
}

/** Returns the claims with an expired lease, oldest first, without the transfers in `except`. */
export async function expiredClaims(
  sql: Sql,
  limit: number,
  except: string[],
): Promise<ExpiredClaim[]> {
  const jobs = await expiredJobs(sql, limit, except);
  return jobs.map((job) => ({
    transferId: job.transfer_id,
    claimId: job.claim_id,
    figures: toFigures(job),
    committing: job.committing,
  }));
}
