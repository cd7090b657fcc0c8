import { z } from 'zod';
import { timestamp } from '../../commands/answers.ts';
import { rotationRequest, webhookChanges, webhookRequest } from '../../commands/webhook-requests.ts';
import { WEBHOOK_EVENT_TYPES } from '../../domain/webhook.ts';

export const webhookId = z.string().meta({ examples: ['whk_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });

export const webhookParams = z.object({ webhook_id: webhookId });

export const webhookBody = webhookRequest.meta({ id: 'WebhookRequest' });
export const webhookChangesBody = webhookChanges.meta({ id: 'WebhookChanges' });
// No body at all comes as null.
export const rotationBody = z.preprocess((body) => body ?? {}, rotationRequest).meta({ id: 'SecretRotation' });

const webhookFields = {
  id: webhookId,
  url: z.string().meta({ format: 'uri', examples: ['https://receiver.example.com/waybill'] }),
  events: z.array(z.enum(WEBHOOK_EVENT_TYPES)),
  enabled: z.boolean(),
  created_at: timestamp,
  updated_at: timestamp,
  previous_secret_valid_until: timestamp
    .nullable()
    .describe('Until then deliveries are signed with the secret before the last rotation as well; null where they are not.'),
};

export const webhook = z.strictObject(webhookFields).meta({ id: 'Webhook' });
export type Webhook = z.output<typeof webhook>;

export const webhookWithSecret = z
  .strictObject({
    ...webhookFields,
    secret: z
      .string()
      .optional()
      .describe('Only where it was generated, and only in this answer: a replay of it leaves the secret out.')
      .meta({ examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='] }),
  })
  .meta({ id: 'WebhookWithSecret' });
export type WebhookWithSecret = z.output<typeof webhookWithSecret>;

export const webhookList = z.strictObject({ data: z.array(webhook).describe('Newest first.') }).meta({ id: 'WebhookList' });
export type WebhookList = z.output<typeof webhookList>;
