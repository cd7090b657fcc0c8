import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { registerWebhook, removeWebhook, reserveWebhook, rotateWebhookSecret, updateWebhook } from '../../commands/webhooks.ts';
import { DomainError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { Webhook } from '../../domain/webhook.ts';
import { findWebhook, listWebhooks } from '../../projections/catalog-queries.ts';
import { causeOf, clientOf } from '../auth.ts';
import { idempotencyHeaders, noQuery, nothing, responses, WITH_BODY, WITH_IDEMPOTENCY_KEY } from '../documentation.ts';
import { idempotent } from '../idempotency.ts';
import * as schemas from './schemas.ts';
import { toAnswer, toWebhook } from './views.ts';

export interface WebhookRoutesDeps {
  sql: Sql;
  locks: Locks;
  commands: CommandDeps;
}

/** The webhook that a request names. Throws `not_found` where it is not there, or is another account's. */
export async function ownWebhook(sql: Sql, request: FastifyRequest<{ Params: { webhook_id: string } }>): Promise<Webhook> {
  const { webhook_id } = request.params;
  const found = isId('whk', webhook_id) ? await findWebhook(sql, clientOf(request).accountId, webhook_id) : null;
  if (!found) throw new DomainError('not_found', 'There is no such webhook');
  return found;
}

export function webhookRoutes(deps: WebhookRoutesDeps): FastifyPluginAsyncZod {
  const { sql, commands } = deps;

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
        response: responses({ 200: ['All webhooks of the account', schemas.webhookList] }, ['unknown_field']),
      },
      async handler(request): Promise<schemas.WebhookList> {
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
        description: 'It is told of what happens from now on. At most 50 of one account.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: schemas.webhookBody,
        response: responses({ 201: ['The webhook is registered', schemas.webhookWithSecret] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'credentials_in_uri',
          'limit_reached',
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        return idempotent(deps, request, reply, {
          secretBody: request.body.secret !== undefined,
          reserve: reserveWebhook,
          async run(reserved) {
            const registered = await registerWebhook(commands, accountId, request.body, causeOf(request), reserved);
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
        params: schemas.webhookParams,
        querystring: noQuery,
        response: responses({ 200: ['The webhook', schemas.webhook] }, ['unknown_field', 'not_found']),
      },
      handler: async (request): Promise<schemas.Webhook> => toWebhook(await ownWebhook(sql, request)),
    });

    app.route({
      method: 'PATCH',
      url: '/webhooks/:webhook_id',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'updateWebhook',
        summary: 'Change a webhook',
        description: 'What is left out stays as it is. The secret is changed by `rotate-secret`.',
        tags: ['Webhooks'],
        params: schemas.webhookParams,
        querystring: noQuery,
        body: schemas.webhookChangesBody,
        response: responses({ 200: ['The webhook is changed', schemas.webhook] }, [...WITH_BODY, 'credentials_in_uri', 'not_found']),
      },
      async handler(request): Promise<schemas.Webhook> {
        const { webhook_id } = await ownWebhook(sql, request);
        return toWebhook(await updateWebhook(commands, webhook_id, request.body, causeOf(request)));
      },
    });

    app.route({
      method: 'DELETE',
      url: '/webhooks/:webhook_id',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'removeWebhook',
        summary: 'Remove a webhook',
        description: 'Nothing is delivered to it any more, and what was pending has failed.',
        tags: ['Webhooks'],
        params: schemas.webhookParams,
        querystring: noQuery,
        response: responses({ 204: ['The webhook is removed', nothing] }, ['unknown_field', 'not_found']),
      },
      async handler(request, reply) {
        const { webhook_id } = await ownWebhook(sql, request);
        await removeWebhook(commands, webhook_id, causeOf(request));
        return reply.code(204).send();
      },
    });

    app.route({
      method: 'POST',
      url: '/webhooks/:webhook_id/rotate-secret',
      config: { scope: 'webhooks:write' },
      schema: {
        operationId: 'rotateWebhookSecret',
        summary: 'Give a webhook another secret',
        description:
          'Until the grace time ends, `X-Service-Signature` stays with the old secret and `webhook-signature` carries both; after it the new one signs alone.',
        tags: ['Webhooks'],
        headers: idempotencyHeaders,
        params: schemas.webhookParams,
        querystring: noQuery,
        body: schemas.rotationBody,
        response: responses({ 200: ['The secret is another', schemas.webhookWithSecret] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          secretBody: request.body.secret !== undefined,
          // The request that begins it names the rotation, whoever carries it on after a crash.
          reserve: () => ({ requestId: request.id }),
          async run({ requestId }) {
            const { webhook_id } = await ownWebhook(sql, request);
            const cause = { ...causeOf(request), correlationId: requestId };
            return toAnswer(200, await rotateWebhookSecret(commands, webhook_id, request.body, cause));
          },
        }),
    });
  };
}
