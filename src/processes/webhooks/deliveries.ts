import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { Payload } from '../../contract/webhooks/payloads.ts';
import { DomainError, notFound } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Webhook } from '../../domain/webhook.ts';
import { enqueue } from './delivery-table/insert.ts';
import { deliveryOf } from './delivery-table/read.ts';
import {
  scheduleAgain,
  scheduleFailedAgain,
  webhooksWithFailed,
} from './delivery-table/reschedule.ts';

/**
 * Schedules a delivery again, whatever its status: at once and with the full retry schedule. Leaves
 * a delivery that is being sent as it is. Throws `not_found` and `webhook_disabled`.
 */
export async function redeliver(
  sql: Queryable,
  { deliveryId, enabled }: { deliveryId: string; enabled: boolean },
): Promise<void> {
  rejectDisabled(enabled, 'retry');
  const found = await scheduleAgain(sql, deliveryId);
  if (!found) throw notFound('delivery');
}

/**
 * Schedules the failed deliveries of a webhook again. Returns the number of deliveries. Throws
 * `webhook_disabled`.
 */
export async function retryFailedDeliveries(
  sql: Sql,
  { webhook_id: webhookId, enabled }: Pick<Webhook, 'webhook_id' | 'enabled'>,
): Promise<number> {
  rejectDisabled(enabled, 'retry');
  return scheduleFailedAgain(sql, webhookId);
}

/**
 * Schedules the failed deliveries of all enabled webhooks again: of an account, or of all accounts
 * if it is null. Returns the number of deliveries.
 */
export async function retryAllFailedDeliveries(
  sql: Sql,
  accountId: string | null,
): Promise<number> {
  let scheduled = 0;
  for (const webhookId of await webhooksWithFailed(sql, accountId))
    scheduled += await scheduleFailedAgain(sql, webhookId);
  return scheduled;
}

/**
 * Schedules a `ping`, which is not in the event log, and returns the id of its delivery. Repeated
 * calls with one event id create one delivery. Throws `webhook_disabled`.
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
  rejectDisabled(enabled, 'send the ping');
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
  return (await deliveryOf(sql, webhookId, eventId)) as string;
}

/**
 * Throws `webhook_disabled`. A pending delivery of a disabled webhook would wait until the webhook
 * is enabled, and be purged in the end.
 */
function rejectDisabled(enabled: boolean, action: string): void {
  if (enabled) return;
  throw new DomainError(
    'webhook_disabled',
    `The webhook is disabled and receives nothing: enable it, then ${action}`,
  );
}
