import type { Webhook } from '../../domain/webhook.ts';
import type * as answers from './answers.ts';

export function toWebhook({
  webhook_id,
  url,
  events,
  enabled,
  created_at,
  updated_at,
  previous,
}: Webhook): answers.Webhook {
  const graced = previous !== null && Date.parse(previous.until) > Date.now();
  return {
    id: webhook_id,
    url,
    events,
    enabled,
    created_at,
    updated_at,
    previous_secret_valid_until: graced ? previous.until : null,
  };
}

/** Returns a webhook with its generated secret. `secret` is null if the client chose the secret. */
export function toWebhookWithSecret(
  webhook: Webhook,
  secret: string | null,
): answers.WebhookWithSecret {
  return { ...toWebhook(webhook), ...(secret !== null && { secret }) };
}
