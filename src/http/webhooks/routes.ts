import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { registerWebhook, reserveWebhook } from '../../commands/webhooks.ts';
import * as answers from '../../contract/webhooks/answers.ts';
import * as requests from '../../contract/webhooks/requests.ts';
import { toWebhook } from '../../contract/webhooks/views.ts';
import { listWebhooks } from '../../projections/catalog/queries.ts';
import { clientOf } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { needScopeOf, ownWebhook, toAnswer, type WebhookRoutesDeps } from './answers.ts';

/** Routes that register and show webhooks. */
export function webhookRoutes(deps: WebhookRoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/webhooks',
      config: { scope: 'webhooks:read' },
      schema: {
        operationId: 'listWebhooks',
        summary: 'List webhooks',
        tags: ['Webhooks'],
        querystring: noQuery,
        response: responses({ 200: ['All webhooks of the account', answers.webhookList] }, [
          'unknown_field',
        ]),
      },
      async handler(request): Promise<answers.WebhookList> {
        return { data: (await listWebhooks(sql, clientOf(request).accountId)).map(toWebhook) };
      },
    });

    app.route({
      method: 'POST',
      url: '/webhooks',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'registerWebhook',
        summary: 'Register a webhook',
        description:
          'It receives events from now on. An account can have 50 webhooks. A subscription to ' +
          '`log.checkpoint` also needs the scope `audit:read`.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.webhookRequest,
        response: responses({ 201: ['The webhook is registered', answers.webhookWithSecret] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'credentials_in_uri',
          'limit_reached',
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        needScopeOf(request, request.body.events);
        return idempotent(deps, request, reply, {
          secretBody: request.body.secret !== undefined,
          reserve: reserveWebhook,
          async run({ reserved, commands, cause }) {
            const registered = await registerWebhook(
              commands,
              accountId,
              request.body,
              cause,
              reserved,
            );
            return { ...toAnswer(201, registered), location: `/v1/webhooks/${reserved.webhookId}` };
          },
        });
      },
    });

    app.route({
      method: 'GET',
      url: '/webhooks/:webhook_id',
      config: { scope: 'webhooks:read' },
      schema: {
        operationId: 'getWebhook',
        summary: 'Get a webhook',
        tags: ['Webhooks'],
        params: requests.webhookParams,
        querystring: noQuery,
        response: responses({ 200: ['The webhook', answers.webhook] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      handler: async (request): Promise<answers.Webhook> =>
        toWebhook(await ownWebhook(deps, request)),
    });
  };
}
