import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Vault } from '../../adapters/vault.ts';
import * as schemas from '../../contract/webhooks/deliveries.ts';
import { webhookParams } from '../../contract/webhooks/requests.ts';
import { newId } from '../../domain/ids.ts';
import { ping, redeliver } from '../../processes/webhooks/deliveries.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { ownWebhook, type WebhookRoutesDeps } from './answers.ts';
import { accepted, deliveryPage, findDelivery, shown } from './delivery-answers.ts';

export interface DeliveryRoutesDeps extends WebhookRoutesDeps {
  vault: Vault;
}

/** Problems of a request that sends a delivery, and has no body. */
const ON_POST = [
  ...WITH_IDEMPOTENCY_KEY,
  'unknown_field' as const,
  'not_found' as const,
  'webhook_disabled' as const,
];

/** Routes for single deliveries of a webhook of the client's account, and for their list. */
export function deliveryRoutes(deps: DeliveryRoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

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
        response: responses({ 202: ['The delivery of the ping', schemas.delivery] }, ON_POST),
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
            const id = await ping(sql, { webhookId, accountId, enabled, eventId });
            return accepted(sql, id, pathOf(webhookId, id));
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
        return shown(deps, await findDelivery(sql, request.params.delivery_id, { webhookId }));
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
        response: responses({ 202: ['The delivery', schemas.delivery] }, ON_POST),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run() {
            const { webhook_id: webhookId, enabled } = await ownWebhook(deps, request);
            const { id } = await findDelivery(sql, request.params.delivery_id, { webhookId });
            await redeliver(sql, { deliveryId: id, enabled });
            return accepted(sql, id, pathOf(webhookId, id));
          },
        }),
    });
  };
}

function pathOf(webhookId: string, deliveryId: string): string {
  return `/v1/webhooks/${webhookId}/deliveries/${deliveryId}`;
}
