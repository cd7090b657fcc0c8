import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import * as schemas from '../../contract/webhooks/deliveries.ts';
import { webhookParams } from '../../contract/webhooks/requests.ts';
import { retryFailedDeliveries } from '../../processes/webhooks/deliveries.ts';
import { replay } from '../../processes/webhooks/replays.ts';
import { disconnectSignal } from '../answers/disconnect.ts';
import { type Answer, idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { ownWebhook, type WebhookRoutesDeps } from './answers.ts';

/** Routes that deliver many events again to a webhook of the client's account. */
export function redeliveryRoutes(deps: WebhookRoutesDeps): FastifyPluginAsyncZod {
  return async (app) => {
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
          [...WITH_IDEMPOTENCY_KEY, 'unknown_field', 'not_found', 'webhook_disabled'],
        ),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run(): Promise<Answer<schemas.Retried>> {
            const webhook = await ownWebhook(deps, request);
            const retried = await retryFailedDeliveries(deps.sql, webhook);
            return { status: 202, body: { retried } };
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
            await replay(deps, webhook_id, request.body.from, disconnectSignal(reply));
            return { status: 202, body: { accepted: true } };
          },
        }),
    });
  };
}
