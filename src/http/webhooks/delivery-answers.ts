import type { Sql } from '../../adapters/postgres/connect.ts';
import type * as schemas from '../../contract/webhooks/deliveries.ts';
import { notFound } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { lastRequest } from '../../processes/webhooks/attempt-request.ts';
import type { DeliveryFilter } from '../../processes/webhooks/delivery-table/read.ts';
import {
  getDelivery,
  listDeliveries,
  type StoredDelivery,
} from '../../processes/webhooks/delivery-table/read.ts';
import type { Answer } from '../idempotency/idempotency.ts';

/** Finds a delivery that matches. Throws `not_found`. */
export async function findDelivery(
  sql: Sql,
  id: string,
  filter: DeliveryFilter = {},
): Promise<StoredDelivery> {
  const found = isId('dlv', id) ? await getDelivery(sql, id, filter) : null;
  if (!found) throw notFound('delivery');
  return found;
}

/**
 * Returns the answer for a delivery that is now pending. `location` is the path that shows its
 * outcome to this client.
 */
export async function accepted(
  sql: Sql,
  id: string,
  location: string,
): Promise<Answer<schemas.Delivery>> {
  const { body: _body, attempt_list: _attempts, ...delivery } = await findDelivery(sql, id);
  return { status: 202, body: delivery, location };
}

/** Returns the answer for a delivery with its payload and its attempts. */
export async function shown(
  deps: Parameters<typeof lastRequest>[0],
  delivery: StoredDelivery,
): Promise<schemas.DeliveryDetail> {
  return { ...delivery, request: await lastRequest(deps, delivery) };
}

/** Returns the answer for a page of the deliveries that match. */
export async function deliveryPage(
  sql: Sql,
  filter: Parameters<typeof listDeliveries>[1],
): Promise<schemas.DeliveryList> {
  const { limit, offset } = filter;
  const { deliveries, total, hasMore } = await listDeliveries(sql, filter);
  return { data: deliveries, pagination: { limit, offset, total, has_more: hasMore } };
}
