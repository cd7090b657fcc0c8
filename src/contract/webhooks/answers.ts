import { z } from 'zod';
import { WEBHOOK_EVENT_TYPES } from '../../domain/webhook.ts';
import { timestamp } from '../instants.ts';
import { webhookId } from './requests.ts';

const webhookFields = {
  id: webhookId,
  url: z.string().meta({ examples: ['https://receiver.example.com/waybill'] }),
  events: z.array(z.enum(WEBHOOK_EVENT_TYPES)),
  enabled: z.boolean(),
  created_at: timestamp,
  updated_at: timestamp,
  previous_secret_valid_until: timestamp
    .nullable()
    .describe(
      'Until then, deliveries are also signed with the previous secret. Null outside a grace ' +
        'period.',
    ),
};

export const webhook = z.strictObject(webhookFields).meta({ id: 'Webhook' });
export type Webhook = z.output<typeof webhook>;

export const webhookWithSecret = z
  .strictObject({
    ...webhookFields,
    secret: z
      .string()
      .optional()
      .describe('Only if it was generated, and only in this answer: a replayed answer omits it.')
      .meta({ examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='] }),
  })
  .meta({ id: 'WebhookWithSecret' });
export type WebhookWithSecret = z.output<typeof webhookWithSecret>;

export const webhookList = z
  .strictObject({ data: z.array(webhook).describe('Newest first.') })
  .meta({ id: 'WebhookList' });
export type WebhookList = z.output<typeof webhookList>;
