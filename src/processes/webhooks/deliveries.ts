import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Webhook } from '../../domain/webhook.ts';
import type { Payload } from './payloads.ts';
import { DELIVERIES_CHANNEL, enqueue, madePending } from './queue.ts';

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export interface Delivery {
  id: string;
  webhook_id: string;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  status: DeliveryStatus;
  attempts: number;
  created_at: string;
  /** null where it has ended. */
  next_attempt_at: string | null;
  delivered_at: string | null;
  /** Of the last attempt; null where that had no answer. */
  last_status_code: number | null;
  last_error: string | null;
}

export interface DeliveryAttempt {
  /** From 1. */
  number: number;
  at: string;
  duration_ms: number;
  status_code: number | null;
  error: string | null;
  /** At most 4 KiB of the answer. */
  response_body: string | null;
}

export interface DeliveryDetail extends Delivery {
  /** The very text that is sent and signed. */
  body: string;
  attempt_list: DeliveryAttempt[];
}

/** Null, or left out: all of them. */
export interface DeliveryFilter {
  accountId?: string | null;
  webhookId?: string | null;
  status?: DeliveryStatus | null;
}

/** Tables of deliveries grow large, and each further one costs as much to count as the one before. */
export const COUNTED_TO = 10_000;

/** Deliveries, newest first, whether more follow, and how many there are in all, counted to 10,000. */
export async function listDeliveries(
  sql: Queryable,
  { limit, offset, ...filter }: DeliveryFilter & { limit: number; offset: number },
): Promise<{ deliveries: Delivery[]; total: number; hasMore: boolean }> {
  const [found, [counted]] = await Promise.all([
    sql<
      Delivery[]
    >`select ${columns(sql)} from work.deliveries where ${matching(sql, filter)} order by id desc limit ${limit + 1} offset ${offset}`,
    sql<{ total: number }[]>`
      select count(*)::integer as total from (select from work.deliveries where ${matching(sql, filter)} limit ${COUNTED_TO}) counted`,
  ]);
  return { deliveries: found.slice(0, limit), total: counted?.total ?? 0, hasMore: found.length > limit };
}

/** One delivery with its payload and attempts; null where there is none that matches. */
export async function getDelivery(sql: Queryable, deliveryId: string, filter: DeliveryFilter = {}): Promise<DeliveryDetail | null> {
  const [delivery] = await sql<(Delivery & { body: string })[]>`
    select ${columns(sql)}, body from work.deliveries where id = ${deliveryId} and ${matching(sql, filter)}`;
  if (!delivery) return null;
  // Those that the row has counted: another may have been recorded since.
  const attempt_list = await sql<DeliveryAttempt[]>`
    select number, at, duration_ms, status_code, error, response_body from work.delivery_attempts
     where delivery_id = ${deliveryId} and number <= ${delivery.attempts} order by number`;
  return { ...delivery, attempt_list: [...attempt_list] };
}

/** Sends a delivery again, at once and with the whole schedule before it, whatever its status. Throws `not_found` and `webhook_disabled`. */
export async function redeliver(sql: Queryable, { deliveryId, enabled }: { deliveryId: string; enabled: boolean }): Promise<void> {
  refuseDisabled(enabled, 'retry');
  const [found] = await sql`
    with found as (select id from work.deliveries where id = ${deliveryId}),
    again as (
      -- one that is being sent at this moment is left to it
      update work.deliveries d set ${madePending(sql)} from found where d.id = found.id and (d.claim_id is null or d.lease_until < now())
    )
    select id, pg_notify(${DELIVERIES_CHANNEL}, '') from found`;
  if (!found) throw new DomainError('not_found', 'There is no such delivery');
}

/**
 * Sends the failed deliveries of a webhook again, or, for null, of all that are registered and enabled; gives
 * their number. Throws `webhook_disabled`.
 */
export async function retryFailed(sql: Queryable, webhook: Pick<Webhook, 'webhook_id' | 'enabled'> | null): Promise<number> {
  if (webhook) refuseDisabled(webhook.enabled, 'retry');
  const whose = webhook
    ? sql`webhook_id = ${webhook.webhook_id}`
    : sql`webhook_id in (select webhook_id from read.webhooks where not removed and (state ->> 'enabled')::boolean)`;
  const { count } = await sql`update work.deliveries set ${madePending(sql)} where ${whose} and status = 'failed'`;
  if (count > 0) await sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`;
  return count;
}

/**
 * Sends a `ping`, which no log holds, and gives the id of its delivery: for one event id one delivery, however
 * often this is asked for. Throws `webhook_disabled`.
 */
export async function ping(
  sql: Sql,
  {
    webhookId,
    accountId,
    enabled = true,
    eventId = newId('evt'),
  }: { webhookId: string; accountId: string; enabled?: boolean; eventId?: string },
): Promise<string> {
  refuseDisabled(enabled, 'send the ping');
  const payload: Payload<'ping'> = {
    id: eventId,
    type: 'ping',
    created_at: new Date().toISOString(),
    data: { webhook_id: webhookId },
  };
  await enqueue(sql, [
    {
      webhook_id: webhookId,
      account_id: accountId,
      event_id: payload.id,
      event_type: payload.type,
      transfer_id: null,
      body: JSON.stringify(payload),
    },
  ]);
  const [row] = await sql<[{ id: string }]>`select id from work.deliveries where webhook_id = ${webhookId} and event_id = ${eventId}`;
  return row.id;
}

/** Throws `webhook_disabled`: what is made pending for such a one is not tried until it is enabled, and purged in the end. */
function refuseDisabled(enabled: boolean, what: string): void {
  if (enabled) return;
  throw new DomainError('webhook_disabled', `Nothing is delivered to a webhook that is disabled: enable it, then ${what}`);
}

function columns(sql: Queryable) {
  return sql`
    id, webhook_id, account_id, event_id, event_type, transfer_id, status, attempts, created_at,
    case when status = 'pending' then due_at end as next_attempt_at,
    case when status = 'delivered' then ended_at end as delivered_at,
    last_status_code, last_error`;
}

function matching(sql: Queryable, { accountId = null, webhookId = null, status = null }: DeliveryFilter) {
  const account = accountId === null ? sql`` : sql`and account_id = ${accountId}`;
  const webhook = webhookId === null ? sql`` : sql`and webhook_id = ${webhookId}`;
  return status === null ? sql`true ${account} ${webhook}` : sql`status = ${status} ${account} ${webhook}`;
}
