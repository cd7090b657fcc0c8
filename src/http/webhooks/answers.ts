import type { FastifyRequest } from 'fastify';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { WithSecret } from '../../commands/webhooks.ts';
import type { WebhookWithSecret } from '../../contract/webhooks/answers.ts';
import { toWebhook, toWebhookWithSecret } from '../../contract/webhooks/views.ts';
import { notFound } from '../../domain/errors.ts';
import type { Webhook, WebhookEventType } from '../../domain/webhook.ts';
import { findWebhook } from '../../projections/catalog/queries.ts';
import { clientOf, needScope } from '../auth/client.ts';
import type { Answer, IdempotencyDeps } from '../idempotency/idempotency.ts';

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
export function needScopeOf(
  request: FastifyRequest,
  events: readonly WebhookEventType[] = [],
): void {
  if (events.includes('log.checkpoint')) needScope(clientOf(request), 'audit:read');
}

/** Returns an answer that shows a generated secret. A replay of it does not. */
export function toAnswer(
  status: number,
  { webhook, secret }: WithSecret,
): Answer<WebhookWithSecret> {
  return { status, body: toWebhookWithSecret(webhook, secret), replayed: toWebhook(webhook) };
}
