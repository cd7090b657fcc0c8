import type { Queryable } from '../../../adapters/postgres/connect.ts';

/** Notified when a new delivery may be due. */
export const DELIVERIES_CHANNEL = 'waybill_deliveries';

/** Wakes the deliverers of all processes. */
export async function announceDeliveries(sql: Queryable): Promise<void> {
  await sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`;
}

/** Begins the insertion of rows that are due at once, with the full retry schedule. */
export function toSend(sql: Queryable) {
  return sql`
    insert into work.pending_deliveries as p (delivery_id, webhook_id, event_id, transfer_id)`;
}

/** Updates the deliveries whose new rows to send the CTE `again` returns. */
export function pendingAgain(sql: Queryable) {
  return sql`
    update work.deliveries d set status = 'pending', ended_at = null
      from again where d.id = again.delivery_id and d.status <> 'pending'`;
}
