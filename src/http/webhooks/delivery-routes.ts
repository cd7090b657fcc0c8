import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import * as schemas from '../../contract/webhooks/deliveries.ts';
import { webhookParams } from '../../contract/webhooks/requests.ts';
import { DomainError, notFound } from '../../domain/errors.ts';
import { isId, newId } from '../../domain/ids.ts';
import { lastRequest } from '../../processes/webhooks/attempt-request.ts';
import {
  type DeliveryFilter,
  ping,
  redeliver,
  retryAllFailedDeliveries,
  retryFailedDeliveries,
} from '../../processes/webhooks/deliveries.ts';
import {
  getDelivery,
  listDeliveries,
  type StoredDelivery,
} from '../../processes/webhooks/delivery-table/read.ts';
import { replay } from '../../processes/webhooks/replays.ts';
import { findWebhook } from '../../projections/catalog/queries.ts';
import { accountAsked, accountLimit } from '../auth.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../documentation.ts';
import { type Answer, idempotent } from '../idempotency.ts';
import { ownWebhook, type WebhookRoutesDeps } from './routes.ts';

export interface DeliveryRoutesDeps extends WebhookRoutesDeps {
  vault: Vault;
}

const ON_POST = [...WITH_IDEMPOTENCY_KEY, 'unknown_field', 'not_found'] as const;

/** Finds a delivery that matches. Throws `not_found`. */
async function findDelivery(
  sql: Sql,
  id: string,
  filter: DeliveryFilter = {},
): Promise<StoredDelivery> {
  const found = isId('dlv', id) ? await getDelivery(sql, id, filter) : null;
  if (!found) throw notFound('delivery');
  return found;
}

/** Returns the answer for a delivery that is now pending, with the path that shows its outcome. */
async function accepted(sql: Sql, id: string): Promise<Answer<schemas.Delivery>> {
  const { body: _body, attempt_list: _attempts, ...delivery } = await findDelivery(sql, id);
  return {
    status: 202,
    body: delivery,
    location: `/v1/webhooks/${delivery.webhook_id}/deliveries/${id}`,
  };
}

export function deliveryRoutes(deps: DeliveryRoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  async function shown(delivery: StoredDelivery): Promise<schemas.DeliveryDetail> {
    return { ...delivery, request: await lastRequest(deps, delivery) };
  }

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/webhooks/:webhook_id/ping',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'pingWebhook',
        summary: 'Send a ping to a webhook',
        description: 'Sends a delivery of type `ping`. It is signed and retried like any other.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        params: webhookParams,
        querystring: noQuery,
        response: responses({ 202: ['The delivery of the ping', schemas.delivery] }, [
          ...ON_POST,
          'webhook_disabled',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({ eventId: newId('evt') }),
          async run({ reserved: { eventId } }) {
            const {
              webhook_id: webhookId,
              account_id: accountId,
              enabled,
            } = await ownWebhook(deps, request);
            return accepted(sql, await ping(sql, { webhookId, accountId, enabled, eventId }));
          },
        }),
    });

    app.route({
      method: 'GET',
      url: '/webhooks/:webhook_id/deliveries',
      config: { scope: 'webhooks:read' },
      schema: {
        operationId: 'listWebhookDeliveries',
        summary: 'List the deliveries of a webhook',
        tags: ['Webhooks'],
        params: webhookParams,
        querystring: schemas.webhookDeliveriesQuery,
        response: responses({ 200: ['A page of deliveries', schemas.deliveryList] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<schemas.DeliveryList> {
        const { webhook_id: webhookId } = await ownWebhook(deps, request);
        const { status = null, ...page } = request.query;
        return deliveryPage(sql, { webhookId, status, ...page });
      },
    });

    app.route({
      method: 'GET',
      url: '/webhooks/:webhook_id/deliveries/:delivery_id',
      config: { scope: 'webhooks:read' },
      schema: {
        operationId: 'getWebhookDelivery',
        summary: 'Get a delivery with its payload and its attempts',
        tags: ['Webhooks'],
        params: schemas.webhookDeliveryParams,
        querystring: noQuery,
        response: responses({ 200: ['The delivery', schemas.deliveryDetail] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<schemas.DeliveryDetail> {
        const { webhook_id: webhookId } = await ownWebhook(deps, request);
        return shown(await findDelivery(sql, request.params.delivery_id, { webhookId }));
      },
    });

    app.route({
      method: 'POST',
      url: '/webhooks/:webhook_id/deliveries/:delivery_id/redeliver',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'redeliver',
        summary: 'Deliver again',
        description:
          'Sends the same event id and the same bytes again now, in any status, with a full ' +
          'set of retries.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        params: schemas.webhookDeliveryParams,
        querystring: noQuery,
        response: responses({ 202: ['The delivery', schemas.delivery] }, [
          ...ON_POST,
          'webhook_disabled',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run() {
            const { webhook_id: webhookId, enabled } = await ownWebhook(deps, request);
            const { id } = await findDelivery(sql, request.params.delivery_id, { webhookId });
            await redeliver(sql, { deliveryId: id, enabled });
            return accepted(sql, id);
          },
        }),
    });

    app.route({
      method: 'POST',
      url: '/webhooks/:webhook_id/retry-failed',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'retryFailedDeliveries',
        summary: 'Retry all failed deliveries of a webhook',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        params: webhookParams,
        querystring: noQuery,
        response: responses(
          { 202: ['The number of deliveries that are pending again', schemas.retried] },
          [...ON_POST, 'webhook_disabled'],
        ),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run(): Promise<Answer<schemas.Retried>> {
            return {
              status: 202,
              body: { retried: await retryFailedDeliveries(sql, await ownWebhook(deps, request)) },
            };
          },
        }),
    });

    app.route({
      method: 'POST',
      url: '/webhooks/:webhook_id/replay',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'replayWebhook',
        summary: 'Replay events to a webhook',
        description:
          'Delivers all subscribed events again, from a time or an event up to now, in the ' +
          'background. This includes events that were delivered and events that never were. ' +
          'Event ids stay the same.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        params: webhookParams,
        querystring: noQuery,
        body: schemas.replayRequest,
        response: responses({ 202: ['The replay starts', schemas.acceptedReplay] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run(): Promise<Answer<schemas.AcceptedReplay>> {
            const { webhook_id } = await ownWebhook(deps, request);
            const left = new AbortController();
            reply.raw.once('close', () => left.abort());
            await replay(deps, webhook_id, request.body.from, left.signal);
            return { status: 202, body: { accepted: true } };
          },
        }),
    });

    app.route({
      method: 'GET',
      url: '/deliveries',
      config: { scope: 'observe' },
      schema: {
        operationId: 'listDeliveries',
        summary: 'List the deliveries of all accounts',
        description:
          'Use `status=failed` to list the failed ones. Without the scope `admin`, it lists those ' +
          'of your account.',
        tags: ['Administration'],
        querystring: schemas.deliveriesQuery,
        response: responses({ 200: ['A page of deliveries', schemas.deliveryList] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<schemas.DeliveryList> {
        const { status = null, webhook_id: webhookId = null, account, ...page } = request.query;
        const accountId = accountAsked(request, account);
        return deliveryPage(sql, { accountId, webhookId, status, ...page });
      },
    });

    app.route({
      method: 'POST',
      url: '/deliveries/retry-failed',
      config: { scope: 'operate' },
      schema: {
        operationId: 'retryAllFailedDeliveries',
        summary: 'Retry all failed deliveries, of one or all accounts',
        description:
          'Deliveries to a removed or disabled webhook stay failed. Without the scope `admin`, it ' +
          'retries those of your account.',
        tags: ['Administration'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: schemas.retryFailedRequest,
        response: responses(
          { 202: ['The number of deliveries that are pending again', schemas.retried] },
          [...WITH_BODY, ...WITH_IDEMPOTENCY_KEY],
        ),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          run: async (): Promise<Answer<schemas.Retried>> => ({
            status: 202,
            body: {
              retried: await retryAllFailedDeliveries(
                sql,
                accountAsked(request, request.body.account),
              ),
            },
          }),
        }),
    });

    app.route({
      method: 'GET',
      url: '/deliveries/:delivery_id',
      config: { scope: 'observe' },
      schema: {
        operationId: 'getDelivery',
        summary: 'Get a delivery of any account with its payload and its attempts',
        tags: ['Administration'],
        params: schemas.deliveryParams,
        querystring: noQuery,
        response: responses({ 200: ['The delivery', schemas.deliveryDetail] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      handler: async (request): Promise<schemas.DeliveryDetail> =>
        shown(
          await findDelivery(sql, request.params.delivery_id, { accountId: accountLimit(request) }),
        ),
    });

    app.route({
      method: 'POST',
      url: '/deliveries/:delivery_id/retry',
      config: { scope: 'operate' },
      schema: {
        operationId: 'retryDelivery',
        summary: 'Retry a delivery of any account',
        tags: ['Administration'],
        headers: idempotencyHeaders,
        params: schemas.deliveryParams,
        querystring: noQuery,
        response: responses({ 202: ['The delivery', schemas.delivery] }, [
          ...ON_POST,
          'webhook_disabled',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run() {
            const { id, account_id, webhook_id } = await findDelivery(
              sql,
              request.params.delivery_id,
              { accountId: accountLimit(request) },
            );
            const webhook = await findWebhook(deps, account_id, webhook_id);
            if (!webhook) {
              throw new DomainError(
                'not_found',
                'The webhook of this delivery was removed, so it cannot be delivered',
              );
            }
            await redeliver(sql, { deliveryId: id, enabled: webhook.enabled });
            return accepted(sql, id);
          },
        }),
    });
  };
}

async function deliveryPage(
  sql: Sql,
  filter: Parameters<typeof listDeliveries>[1],
): Promise<schemas.DeliveryList> {
  const { limit, offset } = filter;
  const { deliveries, total, hasMore } = await listDeliveries(sql, filter);
  return { data: deliveries, pagination: { limit, offset, total, has_more: hasMore } };
}
