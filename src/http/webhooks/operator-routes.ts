import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import * as schemas from '../../contract/webhooks/deliveries.ts';
import { DomainError } from '../../domain/errors.ts';
import { redeliver, retryAllFailedDeliveries } from '../../processes/webhooks/deliveries.ts';
import { findWebhook } from '../../projections/catalog/queries.ts';
import { accountAsked, accountLimit } from '../auth/client.ts';
import { type Answer, idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';
import { accepted, deliveryPage, findDelivery, shown } from './delivery-answers.ts';

/** Routes for the deliveries of all webhooks, of one or all accounts. */
export function operatorDeliveryRoutes(deps: OperatorRoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  return async (app) => {
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
          byRights: true,
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
          deps,
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
          ...WITH_IDEMPOTENCY_KEY,
          'unknown_field',
          'not_found',
          'webhook_disabled',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          byRights: true,
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
            return accepted(sql, id, `/v1/deliveries/${id}`);
          },
        }),
    });
  };
}
