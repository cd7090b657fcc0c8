import type { Queryable, Sql } from '../../../adapters/postgres/connect.ts';
import { announceDeliveries, DELIVERIES_CHANNEL, pendingAgain, toSend } from './pending.ts';
import { CHANGED_AT_ONCE } from './purge.ts';

/**
 * Schedules a delivery again, at once and with the full retry schedule. Leaves a delivery that is
 * being sent as it is. Returns false if there is no such delivery.
 */
export async function scheduleAgain(sql: Queryable, deliveryId: string): Promise<boolean> {
  const [found] = await sql`
    with found as (
      select id, webhook_id, event_id, transfer_id from work.deliveries
       where id = ${deliveryId} for key share
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

/**
 * Schedules the failed deliveries of a webhook again. Returns how many. Changes 5,000 in a
 * transaction: a webhook whose receiver was down for days has millions, and one statement for all
 * of them gets no answer in time. If one fails, the deliveries before it stay scheduled.
 */
export async function scheduleFailedAgain(sql: Sql, webhookId: string): Promise<number> {
  let scheduled = 0;
  // Goes by id, so a delivery that fails again meanwhile does not return.
  for (let last: string | null = ''; last !== null; ) {
    const some = await scheduleSomeFailedAgain(sql, webhookId, last);
    scheduled += some.scheduled;
    last = some.last;
  }
  return scheduled;
}

/** Schedules the first 5,000 after an id. Returns the last id; null if no more follow. */
async function scheduleSomeFailedAgain(
  sql: Sql,
  webhookId: string,
  after: string,
): Promise<{ scheduled: number; last: string | null }> {
  const [some] = await sql<[{ scheduled: number; last: string | null }]>`
    with failed as materialized (
      select id, webhook_id, event_id, transfer_id from work.deliveries
       where webhook_id = ${webhookId} and failed_at is not null and id > ${after}
       order by id limit ${CHANGED_AT_ONCE} for key share
    ),
    again as (
      ${toSend(sql)} select * from failed order by event_id
      on conflict do nothing returning delivery_id
    ),
    changed as (${pendingAgain(sql)} returning d.id)
    select (select count(*) from changed)::integer as scheduled,
           case when count(*) = ${CHANGED_AT_ONCE} then max(id) end as last
      from failed`;
  if (some.scheduled > 0) await announceDeliveries(sql);
  return some;
}

/** Returns the enabled webhooks with failed deliveries: of an account, or of all if it is null. */
export async function webhooksWithFailed(sql: Sql, accountId: string | null): Promise<string[]> {
  const rows = await sql<{ webhook_id: string }[]>`
    select webhook_id from read.webhooks w
     where not removed and (state ->> 'enabled')::boolean
       and (${accountId}::text is null or account_id = ${accountId})
       and exists (
         select from work.deliveries d
          where d.webhook_id = w.webhook_id and d.failed_at is not null)`;
  return rows.map(({ webhook_id }) => webhook_id);
}
