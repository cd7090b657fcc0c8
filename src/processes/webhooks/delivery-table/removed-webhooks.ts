import type { Queryable, Sql } from '../../../adapters/postgres/connect.ts';
import { followedWebhooks } from '../followed-webhooks.ts';
import { CHANGED_AT_ONCE } from './purge.ts';

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
