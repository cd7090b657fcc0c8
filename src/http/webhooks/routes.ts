import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import {
  registerWebhook,
  removeWebhook,
  reserveWebhook,
  rotateWebhookSecret,
  updateWebhook,
  type WithSecret,
} from '../../commands/webhooks.ts';
import * as answers from '../../contract/webhooks/answers.ts';
import * as requests from '../../contract/webhooks/requests.ts';
import { toWebhook, toWebhookWithSecret } from '../../contract/webhooks/views.ts';
import { notFound } from '../../domain/errors.ts';
import type { Webhook, WebhookEventType } from '../../domain/webhook.ts';
import { findWebhook, listWebhooks } from '../../projections/catalog/queries.ts';
import { causeOf, clientOf, needScope } from '../auth/authenticate.ts';
import { type Answer, type IdempotencyDeps, idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  nothing,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';

export interface WebhookRoutesDeps extends IdempotencyDeps {
  sql: Sql;
  store: EventStore;
}

/**
 * Finds the webhook that a request names. Throws `not_found`, also for a webhook of another
 * account.
 */
export async function ownWebhook(
  stores: Pick<WebhookRoutesDeps, 'sql' | 'store'>,
  request: FastifyRequest<{ Params: { webhook_id: string } }>,
): Promise<Webhook> {
  const found = await findWebhook(stores, clientOf(request).accountId, request.params.webhook_id);
  if (!found) throw notFound('webhook');
  return found;
}

/** Throws `insufficient_scope` if the client may not read what a webhook would receive. */
function needScopeOf(request: FastifyRequest, events: readonly WebhookEventType[] = []): void {
  if (events.includes('log.checkpoint')) needScope(clientOf(request), 'audit:read');
}

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

/** Returns an answer that shows a generated secret. A replay of it does not. */
function toAnswer(
  status: number,
  { webhook, secret }: WithSecret,
): Answer<answers.WebhookWithSecret> {
  return { status, body: toWebhookWithSecret(webhook, secret), replayed: toWebhook(webhook) };
}
