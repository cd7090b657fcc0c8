/*
 * The owner of `work.deliveries`, `work.pending_deliveries` and `work.delivery_attempts`: every
 * statement on them is here, or in the SQL functions `work.due_webhooks`, `work.claim_deliveries`,
 * `work.record_attempts` and `work.purge_deliveries`, called only from here.
 *
 * A delivery has a row in `work.pending_deliveries` while its status is `pending`. A statement that
 * changes both rows changes that one first, so two statements never wait for each other.
 */

import type { Fragment, Queryable, Sql, Transaction } from '../../adapters/postgres/connect.ts';
import { jsonArray } from '../../adapters/postgres/json-array.ts';
import type { Outcome } from '../../adapters/webhooks/send.ts';
import { COUNTED_TO } from '../../contract/pages.ts';
import type {
  Delivery,
  DeliveryAttempt,
  DeliveryDetail,
} from '../../contract/webhooks/deliveries.ts';
import { newId, newIds } from '../../domain/ids.ts';
import type { Capacity } from './concurrency-limits.ts';
import type { DeliveryFilter } from './deliveries.ts';
import { followedWebhooks } from './followed-webhooks.ts';

/** Notified when a new delivery may be due. */
export const DELIVERIES_CHANNEL = 'waybill_deliveries';

/** How long a claim holds. An attempt takes at most 10 s. */
const LEASE = '30 seconds';

const DELIVERED_KEPT = '7 days';
/** For failed deliveries, which can be sent again, and for pending ones, counted from `due_at`. */
const OTHERS_KEPT = '30 days';
/**
 * Rows per statement of the purge, and of the end of a webhook. A larger statement would delay
 * deliveries.
 */
const CHANGED_AT_ONCE = 5_000;

export interface NewDelivery {
  webhook_id: string;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  /** The payload as every attempt signs and sends it. */
  body: string;
}

/** A new delivery, perhaps with its first attempt. */
export interface DeliveryRow extends NewDelivery {
  id: string;
  /** When the first attempt was claimed. Null for a delivery without one: then now. */
  created_at: string | null;
  /** The claim of the first attempt while it is under way. */
  claim_id: string | null;
  /** The first attempt, if it has ended. */
  attempt: Attempt | null;
}

/** Returns deliveries as rows without an attempt, with ids in their order. */
export function asRows(deliveries: NewDelivery[]): DeliveryRow[] {
  const ids = newIds('dlv', deliveries.length);
  return deliveries.map((delivery, i) => ({
    ...delivery,
    id: ids[i] as string,
    created_at: null,
    claim_id: null,
    attempt: null,
  }));
}

/**
 * Returns the CTEs that insert deliveries, if the CTE `moved` has a row. They fail if a delivery
 * exists.
 */
export function insertedDeliveries(sql: Queryable, rows: DeliveryRow[]): Fragment {
  return sql`
    ${asTable(sql, rows)}
    , deliveries as (${insertDeliveries(sql)})
    ${insertedStates(sql)}`;
}

/** Inserts the same, and leaves deliveries that exist as they are. */
export async function insertMissing(tx: Transaction, rows: DeliveryRow[]): Promise<void> {
  const inserted = await tx<{ id: string }[]>`
    with moved as (select) ${asTable(tx, rows)} ${insertUnknown(tx)} returning id`;
  const ids = new Set(inserted.map(({ id }) => id));
  const missing = rows.filter(({ id }) => ids.has(id));
  if (missing.length > 0)
    await tx`with moved as (select) ${asTable(tx, missing)} ${insertedStates(tx)} select`;
}

/**
 * Returns the CTE `delivery` with these rows, if the CTE `moved` has one. They are in the order of
 * the unique key, so that an outbox and a replay never wait for each other.
 */
function asTable(sql: Queryable, unordered: DeliveryRow[]): Fragment {
  const rows = unordered.toSorted(byKey);
  const attempts = rows.map(({ attempt }) => attempt);
  const { at, durations, statusCodes, errors, responses, statuses, dueTimes } = columnsOf(attempts);
  return sql`
    , delivery as (
      select * from moved, unnest(
        ${rows.map(({ id }) => id)}::text[],
        ${rows.map(({ webhook_id }) => webhook_id)}::text[],
        ${rows.map(({ account_id }) => account_id)}::text[],
        ${rows.map(({ event_id }) => event_id)}::text[],
        ${rows.map(({ event_type }) => event_type)}::text[],
        ${rows.map(({ transfer_id }) => transfer_id)}::text[],
        ${jsonArray(
          sql,
          rows.map(({ body }) => body),
        )},
        ${rows.map(({ created_at }) => created_at)}::timestamptz[],
        ${rows.map(({ claim_id }) => claim_id)}::text[],
        ${at}::timestamptz[], ${durations}::integer[], ${statusCodes}::integer[],
        ${errors}::text[], ${responses}::text[], ${statuses}::text[], ${dueTimes}::timestamptz[]
      ) as d(id, webhook_id, account_id, event_id, event_type, transfer_id, body, created_at,
             claim_id, at, duration_ms, status_code, error, response_body, status, due_at)
    )`;
}

function insertDeliveries(sql: Queryable): Fragment {
  return sql`
    insert into work.deliveries
      (id, webhook_id, account_id, event_id, event_type, transfer_id, body, status, created_at,
       attempts, ended_at, last_status_code, last_error)
    select id, webhook_id, account_id, event_id, event_type, transfer_id, body, status,
           coalesce(created_at, now()), case when at is null then 0 else 1 end,
           case when status <> 'pending' then at + duration_ms * interval '1 millisecond' end,
           status_code, error
      from delivery`;
}

function insertUnknown(sql: Queryable): Fragment {
  return sql`${insertDeliveries(sql)} on conflict (webhook_id, event_id) do nothing`;
}

/** Returns the CTEs that insert what is left to send, and the attempts that have ended. */
function insertedStates(sql: Queryable): Fragment {
  return sql`
    , pending as (
      insert into work.pending_deliveries
        (delivery_id, webhook_id, event_id, transfer_id, due_at, tries, claim_id, lease_until)
      select id, webhook_id, event_id, transfer_id, coalesce(due_at, now()),
             case when at is null then 0 else 1 end, claim_id,
             case when claim_id is not null then now() + ${LEASE}::interval end
        from delivery where status = 'pending'
    ),
    attempts as (
      insert into work.delivery_attempts
        (delivery_id, number, at, duration_ms, status_code, error, response_body)
      select id, 1, at, duration_ms, status_code, error, response_body
        from delivery where at is not null
    )`;
}

/** Enqueues new deliveries. Leaves existing ones as they are, sent or not. */
export async function enqueue(sql: Queryable, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`
    with moved as (select) ${asTable(sql, asRows(deliveries))}
    , added as (${insertUnknown(sql)} returning id, webhook_id, event_id, transfer_id)
    ${toSend(sql)} select * from added`;
  await announceDeliveries(sql);
}

/** Enqueues new deliveries, and schedules ended ones again with the same event id and bytes. */
export async function enqueueAgain(sql: Queryable, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`with moved as (select) ${asTable(sql, asRows(deliveries))} ${insertUnknown(sql)}`;
  await sql`
    with known as (
      select d.id, d.webhook_id, d.event_id, d.transfer_id
        from unnest(
          ${deliveries.map(({ webhook_id }) => webhook_id)}::text[],
          ${deliveries.map(({ event_id }) => event_id)}::text[]) as e(webhook_id, event_id)
        join work.deliveries d using (webhook_id, event_id)
       order by d.webhook_id, d.event_id
    ),
    again as (${toSend(sql)} select * from known on conflict do nothing returning delivery_id)
    ${pendingAgain(sql)}`;
  await announceDeliveries(sql);
}

/** Wakes the deliverers of all processes. */
export async function announceDeliveries(sql: Queryable): Promise<void> {
  await sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`;
}

function byKey(a: NewDelivery, b: NewDelivery): number {
  if (a.webhook_id !== b.webhook_id) return a.webhook_id < b.webhook_id ? -1 : 1;
  return a.event_id < b.event_id ? -1 : 1;
}

/** Begins the insertion of rows that are due at once, with the full retry schedule. */
function toSend(sql: Queryable) {
  return sql`
    insert into work.pending_deliveries as p (delivery_id, webhook_id, event_id, transfer_id)`;
}

/** Updates the deliveries whose new rows to send the CTE `again` returns. */
function pendingAgain(sql: Queryable) {
  return sql`
    update work.deliveries d set status = 'pending', ended_at = null
      from again where d.id = again.delivery_id and d.status <> 'pending'`;
}

/**
 * Schedules a delivery again, at once and with the full retry schedule. Leaves a delivery that is
 * being sent as it is. Returns false if there is no such delivery.
 */
export async function scheduleAgain(sql: Queryable, deliveryId: string): Promise<boolean> {
  const [found] = await sql`
    with found as (
      select id, webhook_id, event_id, transfer_id from work.deliveries where id = ${deliveryId}
    ),
    again as (
      ${toSend(sql)} select * from found
      on conflict (delivery_id) do update
        set due_at = now(), tries = 0, claim_id = null, lease_until = null
        where p.claim_id is null or p.lease_until < now()
      returning delivery_id
    ),
    ended as (${pendingAgain(sql)})
    select id, pg_notify(${DELIVERIES_CHANNEL}, '') from found`;
  return found !== undefined;
}

/** Schedules failed deliveries again: of a webhook, or of all enabled ones that match. */
export async function scheduleFailedAgain(
  sql: Queryable,
  { webhookId = null, accountId = null }: Omit<DeliveryFilter, 'status'>,
): Promise<number> {
  const selected =
    webhookId === null
      ? sql`webhook_id in (
        select webhook_id from read.webhooks
         where not removed and (state ->> 'enabled')::boolean)`
      : sql`true`;
  const { count } = await sql`
    with failed as (
      select id, webhook_id, event_id, transfer_id from work.deliveries
       where ${selected} and ${matching(sql, { webhookId, accountId, status: 'failed' })}
       order by webhook_id, event_id
    ),
    again as (${toSend(sql)} select * from failed on conflict do nothing returning delivery_id)
    ${pendingAgain(sql)}`;
  if (count > 0) await announceDeliveries(sql);
  return count;
}

/**
 * Ends pending deliveries of removed webhooks as failed, 5,000 at most. Returns how many. A webhook
 * whose receiver was down for days has millions, and one statement for all of them gets no answer
 * in time: the outbox would repeat it for ever.
 */
export async function failSomeOfRemoved(sql: Queryable): Promise<number> {
  const { count } = await sql`
    with unsent as (
      delete from work.pending_deliveries
       where delivery_id = any(array(
         select p.delivery_id
           from (${followedWebhooks(sql)}) w
          cross join lateral (
            select delivery_id from work.pending_deliveries
             where webhook_id = w.webhook_id
             order by due_at limit ${CHANGED_AT_ONCE}) p
          where w.state ->> 'status' = 'removed' limit ${CHANGED_AT_ONCE}))
      returning delivery_id
    )
    update work.deliveries d
       set status = 'failed', ended_at = now(), last_error = 'the webhook was removed'
      from unsent where d.id = unsent.delivery_id`;
  return count;
}

/** Ends all pending deliveries of removed webhooks as failed. */
export async function failDeliveriesOfRemoved(sql: Sql): Promise<void> {
  while ((await failSomeOfRemoved(sql)) === CHANGED_AT_ONCE);
}

/** Returns deliveries, newest first, whether more follow, and the total, counted to 10,000. */
export async function listDeliveries(
  sql: Queryable,
  { limit, offset, ...filter }: DeliveryFilter & { limit: number; offset: number },
): Promise<{ deliveries: Delivery[]; total: number; hasMore: boolean }> {
  const [found, [counted]] = await Promise.all([
    sql<Delivery[]>`
      select ${columns(sql)} from work.deliveries where ${matching(sql, filter)}
       order by id desc limit ${limit + 1} offset ${offset}`,
    sql<{ total: number }[]>`
      select count(*)::integer as total
        from (select from work.deliveries
               where ${matching(sql, filter)} limit ${COUNTED_TO}) counted`,
  ]);
  return {
    deliveries: found.slice(0, limit),
    total: counted?.total ?? 0,
    hasMore: found.length > limit,
  };
}

/** A delivery as it is stored: the request of an attempt is not. */
export type StoredDelivery = Omit<DeliveryDetail, 'request'>;

/** Returns a delivery with its payload and attempts, or null if none matches. */
export async function getDelivery(
  sql: Queryable,
  deliveryId: string,
  filter: DeliveryFilter = {},
): Promise<StoredDelivery | null> {
  const [delivery] = await sql<(Delivery & { body: string })[]>`
    select ${columns(sql)}, body from work.deliveries
     where id = ${deliveryId} and ${matching(sql, filter)}`;
  if (!delivery) return null;
  // Only attempts that the row counts: another one may have been recorded since.
  const attempt_list = await sql<DeliveryAttempt[]>`
    select number, at, duration_ms, status_code, error, response_body
      from work.delivery_attempts
     where delivery_id = ${deliveryId} and number <= ${delivery.attempts} order by number`;
  return { ...delivery, attempt_list: [...attempt_list] };
}

/** Returns the id of the delivery of an event to a webhook. Null if there is none. */
export async function deliveryOf(
  sql: Queryable,
  webhookId: string,
  eventId: string,
): Promise<string | null> {
  const [row] = await sql<{ id: string }[]>`
    select id from work.deliveries where webhook_id = ${webhookId} and event_id = ${eventId}`;
  return row?.id ?? null;
}

/** Returns the number of deliveries that are due, without those of disabled webhooks. */
export async function countDueDeliveries(sql: Sql): Promise<number> {
  const [row] = await sql<[{ waiting: number }]>`
    select count(*)::integer as waiting
      from work.pending_deliveries p join (${followedWebhooks(sql)}) w using (webhook_id)
     where p.due_at <= now() and w.live`;
  return row.waiting;
}

function columns(sql: Queryable) {
  return sql`
    id, webhook_id, account_id, event_id, event_type, transfer_id, status, attempts, created_at,
    case when status = 'pending' then (
      select due_at from work.pending_deliveries where delivery_id = id) end as next_attempt_at,
    case when status = 'delivered' then ended_at end as delivered_at,
    last_status_code, last_error`;
}

function matching(
  sql: Queryable,
  { accountId = null, webhookId = null, status = null }: DeliveryFilter,
) {
  const account = accountId === null ? sql`` : sql`and account_id = ${accountId}`;
  const webhook = webhookId === null ? sql`` : sql`and webhook_id = ${webhookId}`;
  const ended = status === null ? sql`` : sql`and status = ${status}`;
  // so that the indexes of failed deliveries are used
  const failed = status === 'failed' ? sql`and failed_at is not null` : sql``;
  return sql`true ${account} ${webhook} ${ended} ${failed}`;
}

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

/** Replaces Postgres's clock in tests. */
export type Clock = () => Date;

/**
 * Returns which of these webhooks have a delivery that is due, without those of the given claims.
 * `now` is the time by which it is due.
 */
export async function findDueWebhooks(
  sql: Sql,
  webhookIds: string[],
  claimIds: string[],
  clock?: Clock,
): Promise<{ due: string[]; now: string }> {
  const [row] = await sql<[{ due: string[]; now: string }]>`
    select now,
           (select work.due_webhooks(${webhookIds}::text[], ${claimIds}::text[], now)) as due
      from coalesce(${clock?.() ?? null}, now()) as now`;
  return row;
}

/**
 * Claims due deliveries within the capacity. `work.claim_deliveries` says which. Returns the claims
 * by event id, and `now`: the time of the claim ('' if there is none).
 */
export async function claimDeliveries(
  sql: Sql,
  { healthy, unproven, each, webhooks }: Capacity,
  clock?: Clock,
): Promise<{ claims: Claim[]; now: string }> {
  const known = [...webhooks.values()];
  const rows = await sql<(Claim & { claimed_at: string })[]>`
    select * from work.claim_deliveries(
      ${newId('clm')}, ${LEASE}::interval, ${clock?.() ?? null}, ${healthy}, ${unproven}, ${each},
      ${[...webhooks.keys()]}::text[], ${known.map(({ free }) => free)}::integer[],
      ${known.map((webhook) => Number(webhook.healthy))}::integer[])`;
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
  outcome: Outcome;
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
function columnsOf(attempts: (Attempt | null)[]) {
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

/**
 * Deletes expired deliveries with their attempts. Pending ones expire when their webhook stays
 * disabled. The events stay in the log, and a replay creates their deliveries again.
 */
export async function purgeDeliveries(sql: Sql): Promise<void> {
  for (let purged = CHANGED_AT_ONCE; purged === CHANGED_AT_ONCE; ) {
    const [row] = await sql<[{ purged: number }]>`
      select work.purge_deliveries(
        ${DELIVERED_KEPT}::interval, ${OTHERS_KEPT}::interval, ${CHANGED_AT_ONCE}) as purged`;
    purged = row.purged;
  }
}
