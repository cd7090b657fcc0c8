import type { Fragment, Queryable, Sql } from '../../../adapters/postgres/connect.ts';
import { COUNTED_TO } from '../../../contract/pages.ts';
import type {
  Delivery,
  DeliveryAttempt,
  DeliveryDetail,
  DeliveryStatus,
} from '../../../contract/webhooks/deliveries.ts';
import { followedWebhooks } from '../followed-webhooks.ts';

/** A field that is null or missing matches all deliveries. */
export interface DeliveryFilter {
  accountId?: string | null;
  webhookId?: string | null;
  status?: DeliveryStatus | null;
}

const DUE_COUNTED_TO = 100_000;

/** Returns deliveries, newest first, whether more follow, and the total, counted to 10,000. */
export async function listDeliveries(
  sql: Queryable,
  { limit, offset, ...filter }: DeliveryFilter & { limit: number; offset: number },
): Promise<{ deliveries: Delivery[]; total: number; hasMore: boolean }> {
  const [found, [counted]] = await Promise.all([
    sql<Delivery[]>`
      select ${columns(sql)} from work.deliveries
       where id = any(array(
         select id from (${newestIds(sql, filter, offset + limit + 1)}) newest
          order by id desc offset ${offset}))
       order by id desc`,
    sql<{ total: number }[]>`
      select count(*)::integer as total from (${newestIds(sql, filter, COUNTED_TO)}) counted`,
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

/**
 * Returns the number of deliveries that are due, without those of disabled webhooks. Counts to
 * 100,000: every process is asked at each scrape, and while a receiver is down, millions are due.
 */
export async function countDueDeliveries(sql: Sql): Promise<number> {
  const [row] = await sql<[{ waiting: number }]>`
    select count(*)::integer as waiting
      from (select from (${followedWebhooks(sql)}) w
             cross join lateral (
               select from work.pending_deliveries p
                where p.webhook_id = w.webhook_id and p.due_at <= now() limit ${DUE_COUNTED_TO}) due
             where w.live limit ${DUE_COUNTED_TO}) counted`;
  return row.waiting;
}

function columns(sql: Queryable) {
  return sql`
    id, webhook_id,
    (select state ->> 'url' from read.webhooks w
      where w.webhook_id = deliveries.webhook_id) as webhook_url,
    account_id, event_id, event_type, transfer_id, status, attempts, created_at,
    case when status = 'pending' then (
      select due_at from work.pending_deliveries where delivery_id = id) end as next_attempt_at,
    case when status = 'delivered' then ended_at end as delivered_at,
    last_status_code, last_error`;
}

/** Selects the ids of the newest deliveries that match, `most` at most. */
function newestIds(sql: Queryable, filter: DeliveryFilter, most: number): Fragment {
  if (filter.status === 'pending') return newestPending(sql, filter, most);
  return sql`
    select id from work.deliveries where ${matching(sql, filter)} order by id desc limit ${most}`;
}

/**
 * Does the same for those that are pending. Reads only what is left to send: millions of deliveries
 * may have ended since, and `work.deliveries` has no index of the others.
 */
function newestPending(
  sql: Queryable,
  { accountId = null, webhookId = null }: DeliveryFilter,
  most: number,
): Fragment {
  if (accountId === null && webhookId === null)
    return sql`
      select delivery_id as id from work.pending_deliveries order by delivery_id desc limit ${most}`;
  const webhooks =
    webhookId === null ? webhooksWithPending(sql) : sql`select ${webhookId}::text as webhook_id`;
  // All deliveries of a webhook are of one account.
  const ofAccount =
    accountId === null
      ? sql``
      : sql`where ${accountId} = (
          select account_id from work.deliveries d where d.webhook_id = w.webhook_id limit 1)`;
  return sql`
    select id
      from (${webhooks}) w
     cross join lateral (
       select delivery_id as id from work.pending_deliveries
        -- the expression of the index; for "=", a plan could read the rows of all webhooks by id
        where pending_deliveries.webhook_id || '' between w.webhook_id and w.webhook_id
        order by pending_deliveries.webhook_id || '' desc, delivery_id desc
        limit ${most}) of_webhook
     ${ofAccount} order by id desc limit ${most}`;
}

/** Selects the webhooks with pending deliveries. Reads one row of each. */
function webhooksWithPending(sql: Queryable): Fragment {
  return sql`
    with recursive pending as (
      (select webhook_id from work.pending_deliveries order by webhook_id limit 1)
      union all
      select next.webhook_id from pending cross join lateral (
        select webhook_id from work.pending_deliveries p
         where p.webhook_id > pending.webhook_id order by p.webhook_id limit 1) next
    )
    select webhook_id from pending`;
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
