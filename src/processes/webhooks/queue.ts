import type { Queryable } from '../../adapters/postgres/connect.ts';
import { newId } from '../../domain/ids.ts';

/** Told whenever there may be a delivery that is due. */
export const DELIVERIES_CHANNEL = 'waybill_deliveries';

/** Something to tell to a webhook. */
export interface NewDelivery {
  webhook_id: string;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  /** The payload as it is sent and signed, every time. */
  body: string;
}

/** Enqueues what is not there yet. What is there, sent or not, is left as it is. */
export async function enqueue(sql: Queryable, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`${insertion(sql, deliveries)} on conflict (webhook_id, event_id) do nothing`;
  await sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`;
}

/** Enqueues what is not there yet, and sends again what has ended: the same event id, the same bytes. */
export async function enqueueAgain(sql: Queryable, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`
    ${insertion(sql, deliveries)} on conflict (webhook_id, event_id) do update set ${madePending(sql)} where d.status <> 'pending'`;
  await sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`;
}

/** What an update sets so that a delivery begins its schedule anew, at once. */
export function madePending(sql: Queryable) {
  return sql`status = 'pending', due_at = now(), tries = 0, ended_at = null, claim_id = null, lease_until = null`;
}

function insertion(sql: Queryable, deliveries: NewDelivery[]) {
  return sql`
    insert into work.deliveries as d (id, webhook_id, account_id, event_id, event_type, transfer_id, body)
    select * from unnest(
      ${deliveries.map(() => newId('dlv'))}::text[],
      ${deliveries.map(({ webhook_id }) => webhook_id)}::text[],
      ${deliveries.map(({ account_id }) => account_id)}::text[],
      ${deliveries.map(({ event_id }) => event_id)}::text[],
      ${deliveries.map(({ event_type }) => event_type)}::text[],
      ${deliveries.map(({ transfer_id }) => transfer_id)}::text[],
      ${deliveries.map(({ body }) => body)}::text[])`;
}
