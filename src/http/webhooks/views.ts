import type { WithSecret } from '../../commands/webhooks.ts';
import type { Webhook } from '../../domain/webhook.ts';
import type { Answer } from '../idempotency.ts';
import type * as schemas from './schemas.ts';

export function toWebhook({ webhook_id, url, events, enabled, created_at, updated_at, previous }: Webhook): schemas.Webhook {
  const graced = previous !== null && Date.parse(previous.until) > Date.now();
  return { id: webhook_id, url, events, enabled, created_at, updated_at, previous_secret_valid_until: graced ? previous.until : null };
}

/** An answer that shows a generated secret, and whose replay does not. */
export function toAnswer(status: number, { webhook, secret }: WithSecret): Answer<schemas.WebhookWithSecret> {
  const replayed = toWebhook(webhook);
  return { status, body: secret === null ? replayed : { ...replayed, secret }, replayed };
}
