import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { removeWebhook, rotateWebhookSecret, updateWebhook } from '../../commands/webhooks.ts';
import * as answers from '../../contract/webhooks/answers.ts';
import * as requests from '../../contract/webhooks/requests.ts';
import { toWebhook } from '../../contract/webhooks/views.ts';
import { causeOf } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  nothing,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { needScopeOf, ownWebhook, toAnswer, type WebhookRoutesDeps } from './answers.ts';

/** Routes that change and remove a webhook, and replace its secret. */
export function webhookChangeRoutes(deps: WebhookRoutesDeps): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'PATCH',
      url: '/webhooks/:webhook_id',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'updateWebhook',
        summary: 'Change a webhook',
        description: 'Omitted fields stay. Use `rotate-secret` to change the secret.',
        tags: ['Webhooks'],
        params: requests.webhookParams,
        querystring: noQuery,
        body: requests.webhookChanges,
        response: responses({ 200: ['The webhook is changed', answers.webhook] }, [
          ...WITH_BODY,
          'credentials_in_uri',
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.Webhook> {
        const { webhook_id, events } = await ownWebhook(deps, request);
        const { url, events: wanted } = request.body;
        if (url !== undefined || wanted) needScopeOf(request, [...events, ...(wanted ?? [])]);
        return toWebhook(
          await updateWebhook(deps.commands, webhook_id, request.body, causeOf(request)),
        );
      },
    });

    app.route({
      method: 'DELETE',
      url: '/webhooks/:webhook_id',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'removeWebhook',
        summary: 'Remove a webhook',
        description: 'It receives no further deliveries, and pending deliveries fail.',
        tags: ['Webhooks'],
        params: requests.webhookParams,
        querystring: noQuery,
        response: responses({ 204: ['The webhook is removed', nothing] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request, reply) {
        const { webhook_id } = await ownWebhook(deps, request);
        await removeWebhook(deps.commands, webhook_id, causeOf(request));
        return reply.code(204).send();
      },
    });

    app.route({
      method: 'POST',
      url: '/webhooks/:webhook_id/rotate-secret',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'rotateWebhookSecret',
        summary: 'Replace the secret of a webhook',
        description:
          'During the grace period, `X-Service-Signature` uses the old secret and ' +
          '`webhook-signature` carries both. After it, both use the new secret.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        params: requests.webhookParams,
        querystring: noQuery,
        body: requests.rotationRequest,
        response: responses({ 200: ['The secret is replaced', answers.webhookWithSecret] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          secretBody: request.body.secret !== undefined,
          reserve: () => ({}),
          async run({ commands, cause }) {
            const { webhook_id, events } = await ownWebhook(deps, request);
            needScopeOf(request, events);
            return toAnswer(
              200,
              await rotateWebhookSecret(commands, webhook_id, request.body, cause),
            );
          },
        }),
    });
  };
}
