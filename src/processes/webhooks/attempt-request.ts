import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import { deliveryRequest } from '../../adapters/webhooks/delivery-request.ts';
import type { DeliveryDetail } from '../../contract/webhooks/deliveries.ts';
import { findWebhook } from '../../projections/catalog/queries.ts';
import type { StoredDelivery } from './delivery-table/read.ts';
import { createSecrets } from './secrets.ts';

/**
 * Returns the request of a delivery's last attempt, built again from the present URL and secret of
 * its webhook: an attempt does not store it. It keeps the attempt's timestamp, so it is no fresh
 * signature. Null before the first attempt, and if the webhook or its secret is gone.
 */
export async function lastRequest(
  { vault, ...stores }: { sql: Sql; store: EventStore; vault: Vault },
  { webhook_id, account_id, event_id, body, attempt_list }: StoredDelivery,
): Promise<DeliveryDetail['request']> {
  const last = attempt_list.at(-1);
  const webhook = last && (await findWebhook(stores, account_id, webhook_id));
  if (!webhook) return null;
  const { secret_record, previous } = webhook;
  const at = Date.parse(last.at);
  const secrets = await createSecrets(vault).of(
    {
      secret_record,
      previous_secret_record: previous?.secret_record ?? null,
      previous_until: previous?.until ?? null,
    },
    at,
  );
  if (secrets === null) return null;
  const { url, headers } = deliveryRequest({ url: webhook.url, event_id, body, at }, secrets);
  return { url, headers };
}
