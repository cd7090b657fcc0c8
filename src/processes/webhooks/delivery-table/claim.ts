import type { Queryable } from '../../../adapters/postgres/connect.ts';
import type { SendOutcome } from '../../../adapters/webhooks/send.ts';
import { newId } from '../../../domain/ids.ts';

/** How long a claim holds. An attempt takes at most 10 s. */
export const LEASE_SECONDS = 30;

/** A delivery that only this process may attempt, with its webhook's settings at the claim. */
export interface Claim {
  id: string;
  claim_id: string;
  webhook_id: string;
  event_id: string;
  body: string;
  /** Attempts since the delivery last became pending. */
  tries: number;
  url: string;
  secret_record: string;
  previous_secret_record: string | null;
  previous_until: string | null;
}

/** How many deliveries may be claimed now. */
export interface Capacity {
  /** For all webhooks that answer. */
  healthy: number;
  /** For all webhooks that are new, silent or down. */
  unproven: number;
  /** For one webhook that is not in `webhooks`. It is unproven. */
  each: number;
  webhooks: ReadonlyMap<string, WebhookCapacity>;
}

export interface WebhookCapacity {
  /** How many more claims it may have. */
  free: number;
  /** Claims that this process holds. */
  held: number;
  healthy: boolean;
}

/** Replaces Postgres's clock in tests. */
export type Clock = () => Date;

/**
 * Returns which of these webhooks have a delivery that is due, without those of the given claims. A
 * delivery of one of these transfers is due if it had no attempt. `now` is the time by which the
 * others are due.
 */
export async function findDueWebhooks(
  sql: Queryable,
  webhookIds: string[],
  transferIds: string[],
  claimIds: string[],
  clock?: Clock,
): Promise<{ due: string[]; now: string }> {
  const [row] = await sql<[{ due: string[]; now: string }]>`
    select now,
           (select work.due_webhooks(
             ${webhookIds}::text[], ${claimIds}::text[], now, ${transferIds}::text[])) as due
      from coalesce(${clock?.() ?? null}, now()) as now`;
  return row;
}

/**
 * Claims due deliveries within the capacity. `work.claim_deliveries` says which. Returns the claims
 * by event id, and `now`: the time of the claim ('' if there is none).
 */
export async function claimDeliveries(
  sql: Queryable,
  { healthy, unproven, each, webhooks }: Capacity,
  clock?: Clock,
): Promise<{ claims: Claim[]; now: string }> {
  const known = JSON.stringify(Object.fromEntries(webhooks));
  const rows = await sql<(Claim & { claimed_at: string })[]>`
    select * from work.claim_deliveries(
      ${newId('clm')}, ${LEASE_SECONDS} * interval '1 second', ${clock?.() ?? null}, ${healthy},
      ${unproven}, ${each}, ${known}::text::jsonb)`;
  return {
    claims: rows.toSorted((a, b) => (a.event_id < b.event_id ? -1 : 1)),
    now: rows[0]?.claimed_at ?? '',
  };
}

/** An attempt that has ended. */
export interface Attempt {
  claim: Pick<Claim, 'id' | 'claim_id'>;
  /** When the attempt began, ISO 8601. */
  at: string;
  outcome: SendOutcome;
  next: { status: 'delivered' | 'failed' } | { status: 'pending'; dueAt: string };
}

/** Records attempts. Skips one whose claim no longer holds: the new holder records its own. */
export async function recordAttempts(sql: Queryable, attempts: Attempt[]): Promise<void> {
  const { at, durations, statusCodes, errors, responses, statuses, dueTimes } = columnsOf(attempts);
  await sql`
    select work.record_attempts(
      ${attempts.map(({ claim }) => claim.id)}::text[],
      ${attempts.map(({ claim }) => claim.claim_id)}::text[],
      ${at}::timestamptz[], ${durations}::integer[], ${statusCodes}::integer[], ${errors}::text[],
      ${responses}::text[], ${statuses}::text[], ${dueTimes}::timestamptz[])`;
}

/** Returns the columns of attempts. An attempt that is null has the status `pending` and no more. */
export function columnsOf(attempts: (Attempt | null)[]) {
  const of = <Value>(value: (attempt: Attempt) => Value) =>
    attempts.map((attempt) => (attempt === null ? null : value(attempt)));
  return {
    at: of(({ at }) => at),
    durations: of(({ outcome }) => outcome.durationMs),
    statusCodes: of(({ outcome }) => (outcome.type === 'error' ? null : outcome.statusCode)),
    errors: of(({ outcome }) => (outcome.type === 'delivered' ? null : outcome.error)),
    responses: of(({ outcome }) => (outcome.type === 'error' ? null : outcome.responseBody)),
    statuses: attempts.map((attempt) => attempt?.next.status ?? 'pending'),
    dueTimes: of(({ next }) => (next.status === 'pending' ? next.dueAt : null)),
  };
}

/** Releases claims whose delivery was not attempted, or whose attempt was interrupted. */
export async function releaseClaims(
  sql: Queryable,
  claims: Pick<Claim, 'id' | 'claim_id'>[],
): Promise<void> {
  await sql`
    update work.pending_deliveries p set claim_id = null, lease_until = null
      from unnest(${claims.map(({ id }) => id)}::text[],
                  ${claims.map(({ claim_id }) => claim_id)}::text[]) as c(id, claim_id)
     where p.delivery_id = c.id and p.claim_id = c.claim_id`;
}
