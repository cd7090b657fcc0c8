/*
 * The owner of `work.after_steps`: one row for each completed transfer with steps that are left. The
 * consumer `dispatch` writes a row with the end of the transfer, and removes it with the outcome of
 * the last step. Workers claim rows that are due (worker.ts). A row decides nothing: a worker reads
 * the stream, and the stream takes each outcome once.
 */
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';

/** Notified whenever steps may be due. */
export const AFTER_CHANNEL = 'waybill_after';

/** How long a claim lasts, by the clock of Postgres. It is not renewed. */
const LEASE_SECONDS = 300;

export interface ClaimedSteps {
  transferId: string;
  claimId: string;
  /** Failed tries in a row. */
  tries: number;
  /** True if an earlier try may have changed the source. */
  begun: boolean;
}

/** Returns the CTE `scheduled`: it adds rows for transfers whose steps are left. */
export function scheduledSteps(sql: Queryable, transferIds: string[]) {
  return sql`
    scheduled as (
      insert into work.after_steps (transfer_id)
      select unnest(${transferIds}::text[]) on conflict do nothing
    )`;
}

/** Removes the rows of transfers without steps that are left. */
export async function removeAfterSteps(sql: Queryable, transferIds: string[]): Promise<void> {
  await sql`delete from work.after_steps where transfer_id = any(${transferIds}::text[])`;
}

/** Claims rows that are due, oldest first. `claimIds` has one id for each. */
export async function claimSteps(sql: Sql, claimIds: string[]): Promise<ClaimedSteps[]> {
  return sql<ClaimedSteps[]>`
    with due as (
      select transfer_id, row_number() over (order by due_at) as place
        from (select transfer_id, due_at from work.after_steps
               where due_at <= now() and (lease_until is null or lease_until < now())
               order by due_at limit ${claimIds.length} for update skip locked) found
    )
    update work.after_steps s
       set claim_id = (${claimIds}::text[])[due.place],
           lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
      from due where s.transfer_id = due.transfer_id
    returning s.transfer_id as "transferId", claim_id as "claimId", tries, begun`;
}

/**
 * Records that the source may be changed from now on. Returns false if the claim is lost. Must be
 * durable: afterwards, a source that is gone counts as ours.
 */
export async function beginSourceStep(durable: Sql, steps: ClaimedSteps): Promise<boolean> {
  const rows = await durable`
    update work.after_steps set begun = true
     where transfer_id = ${steps.transferId} and claim_id = ${steps.claimId}
       and lease_until > now()
    returning transfer_id`;
  return rows.length > 0;
}

/** Gives a claim back. The steps are due again after `delayMs`. */
export async function releaseSteps(
  sql: Sql,
  { transferId, claimId, tries, begun }: ClaimedSteps,
  delayMs: number,
): Promise<void> {
  await sql`
    update work.after_steps
       set claim_id = null, lease_until = null, tries = ${tries}, begun = ${begun},
           due_at = now() + ${delayMs} * interval '1 millisecond'
     where transfer_id = ${transferId} and claim_id = ${claimId}`;
}
