import type { Queryable } from '../../../adapters/postgres/connect.ts';
import type { DeliveryFilter } from '../deliveries.ts';
import { announceDeliveries, DELIVERIES_CHANNEL, pendingAgain, toSend } from './pending.ts';
import { matching } from './read.ts';

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
