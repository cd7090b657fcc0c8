/*
 * The owner of `work.after_steps`: one row for each completed transfer with steps that are left.
 * The consumer `dispatch` writes a row with the end of the transfer, and removes it with the
 * outcome of the last step. Workers claim rows that are due (worker.ts). A row decides nothing: a
 * worker reads the stream, and the stream takes each outcome once.
 */
import type { Fragment, Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { AfterReason } from '../../domain/transfers/after.ts';
import { isClosed, type Transfer } from '../../domain/transfers/transfer.ts';
import { scheduledLooks } from '../late-looks.ts';
import type { Room } from './places.ts';

/** Notified whenever steps may be due. */
export const AFTER_CHANNEL = 'waybill_after';

/** How long a claim lasts after its last renewal, by the clock of Postgres. */
export const LEASE_SECONDS = 60;

export interface ClaimedSteps {
  transferId: string;
  claimId: string;
  /** Tries of the current step that failed to connect or to sign in. */
  tries: number;
  /** Other failed tries of the current step. */
  refusals: number;
  /** True if an earlier try may have changed the source. */
  begun: boolean;
  /** Where the next step works. Empty if no worker has looked yet. */
  endpointId: string;
  /** Why the last try failed. Null if none did. */
  error: AfterReason | null;
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

/**
 * Claims rows that are due: the oldest of each endpoint, within the room. `work.claim_after_steps`
 * decides which.
 */
export async function claimSteps(sql: Sql, room: Room): Promise<ClaimedSteps[]> {
  const { answering, unproven, unread, endpoints } = room;
  const known = endpoints.map(
    ({ endpointId, ...place }, i) => [endpointId, { ...place, turn: i + 1 }] as const,
  );
  return sql<ClaimedSteps[]>`
    select transfer_id as "transferId", claim_id as "claimId", tries, refusals, begun,
           endpoint_id as "endpointId", error
      from work.claim_after_steps(
        ${LEASE_SECONDS} * interval '1 second', ${answering}, ${unproven}, ${unread},
        ${JSON.stringify(Object.fromEntries(known))}::text::jsonb)`;
}

/** Renews claims that are still held. */
export async function renewClaims(sql: Sql, claims: ClaimedSteps[]): Promise<void> {
  await sql`
    update work.after_steps set lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
     where transfer_id = any(${claims.map(({ transferId }) => transferId)}::text[])
       and claim_id = any(${claims.map(({ claimId }) => claimId)}::text[])`;
}

/** Returns why the last try of a step failed that is to be repeated. Null if none did. */
export async function lastErrorAfter(sql: Sql, transfer: Transfer): Promise<AfterReason | null> {
  if (transfer.status !== 'completed' || isClosed(transfer)) return null;
  const [row] = await sql<{ error: AfterReason | null }[]>`
    select error from work.after_steps where transfer_id = ${transfer.facts.transfer_id}`;
  return row?.error ?? null;
}

/**
 * Records that the source may be changed from now on. Returns the number of the try; null if the
 * claim is lost. Must be durable: afterwards, a source that is gone counts as ours.
 *
 * If an earlier try was interrupted, its server may carry out its last request late, and hide a
 * newer file. So the same statement schedules looks for that (late-looks.ts).
 */
export async function beginSourceStep(
  durable: Sql,
  { transferId, claimId, begun }: ClaimedSteps,
  { facts: { account_id, source } }: { facts: Pick<Transfer['facts'], 'account_id' | 'source'> },
): Promise<number | null> {
  const looks = scheduledLooks(
    durable,
    durable`
      select transfer_id, 'source', ${account_id}, ${source},
             jsonb_build_object('tried', source_tries) from step where ${begun}`,
  );
  const [row] = await durable<{ source_tries: number }[]>`
    with step as (
      update work.after_steps set begun = true, source_tries = source_tries + 1
       where transfer_id = ${transferId} and claim_id = ${claimId} and lease_until > now()
      returning transfer_id, source_tries
    ), looks as (${looks})
    select source_tries from step`;
  return row?.source_tries ?? null;
}

/** Returns the condition that steps of a transfer are left. */
export function hasSteps(sql: Queryable, transferId: Fragment) {
  return sql`exists (select from work.after_steps s where s.transfer_id = ${transferId})`;
}

/** Gives a claim back. The steps are due again after `delayMs`. */
export async function releaseSteps(
  sql: Sql,
  { transferId, claimId, tries, refusals, begun, endpointId, error }: ClaimedSteps,
  delayMs: number,
): Promise<void> {
  await sql`
    update work.after_steps
       set claim_id = null, lease_until = null, tries = ${tries}, refusals = ${refusals},
           begun = ${begun}, endpoint_id = ${endpointId},
           error = ${error && sql.json({ ...error })},
           due_at = now() + ${delayMs} * interval '1 millisecond'
     where transfer_id = ${transferId} and claim_id = ${claimId}`;
}
