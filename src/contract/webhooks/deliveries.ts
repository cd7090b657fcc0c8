import { z } from 'zod';
import { DEFAULT_ACCOUNT } from '../../domain/account.ts';
import { isId } from '../../domain/ids.ts';
import { text } from '../../domain/text.ts';
import { idOf } from '../ids.ts';
import { parseTime, timestamp } from '../instants.ts';
import { account } from '../keys.ts';
import { countedPagination, pageQuery } from '../pages.ts';
import { webhookId } from './requests.ts';

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

const deliveryId = z.string().meta({ examples: ['dlv_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });
const status = z.enum(DELIVERY_STATUSES);

export const deliveryParams = z.object({ delivery_id: deliveryId });
export const webhookDeliveryParams = z.object({ webhook_id: webhookId, delivery_id: deliveryId });

const onlyAccount = text
  .min(1)
  .optional()
  .describe('Only the deliveries of this account. Without it, those of all accounts.')
  .meta({ examples: [DEFAULT_ACCOUNT] });

export const webhookDeliveriesQuery = z.strictObject({ status: status.optional(), ...pageQuery });
export const deliveriesQuery = z.strictObject({
  status: status.optional(),
  webhook_id: idOf('whk', 'a webhook').optional().describe('Only those of this webhook.'),
  account: onlyAccount,
  ...pageQuery,
});

/** Body of POST /v1/deliveries/retry-failed. It may be missing. */
export const retryFailedRequest = z
  .strictObject({ account: onlyAccount })
  .meta({ id: 'RetryFailedRequest' })
  .nullish()
  .transform((body) => body ?? { account: undefined });

const deliveryFields = {
  id: deliveryId,
  webhook_id: webhookId,
  webhook_url: z
    .string()
    .nullable()
    .describe('The present URL of the webhook, also of a removed one. Null while it is not known.')
    .meta({ examples: ['https://receiver.example.com/waybill'] }),
  account_id: account,
  event_id: z
    .string()
    .describe('The `id` in the payload.')
    .meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
  event_type: z.string().meta({ examples: ['transfer.completed'] }),
  transfer_id: z.string().nullable(),
  status: status.describe('`pending` until an attempt gets a 2xx or the last attempt fails.'),
  attempts: z.int().describe('Attempts made so far.'),
  created_at: timestamp,
  next_attempt_at: timestamp.nullable().describe('Null if the delivery has ended.'),
  delivered_at: timestamp.nullable(),
  last_status_code: z
    .int()
    .nullable()
    .describe('Status of the last attempt. Null if it got no answer.'),
  last_error: z.string().nullable(),
};

export const delivery = z.strictObject(deliveryFields).meta({ id: 'Delivery' });
export type Delivery = z.output<typeof delivery>;

const attempt = z
  .strictObject({
    number: z.int().describe('The number of the attempt, from 1.'),
    at: timestamp,
    duration_ms: z.int(),
    status_code: z.int().nullable().describe('Null if there was no answer.'),
    error: z.string().nullable().describe('Why the attempt failed. Null for a 2xx.'),
    response_body: z.string().nullable().describe('The first 4 KiB of the answer.'),
  })
  .meta({ id: 'DeliveryAttempt' });
export type DeliveryAttempt = z.output<typeof attempt>;

const EXAMPLE_BODY =
  '{"id":"evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H","type":"ping",' +
  '"created_at":"2026-01-31T09:30:00.000Z",' +
  '"data":{"webhook_id":"whk_01JZ8Q6W3N5V4T2R1P0M9K8J7H"}}';

export const deliveryDetail = z
  .strictObject({
    ...deliveryFields,
    body: z
      .string()
      .describe('The exact text that each attempt sends and signs.')
      .meta({ examples: [EXAMPLE_BODY] }),
    attempt_list: z.array(attempt).describe('Oldest first.'),
    request: z
      .strictObject({ url: z.string(), headers: z.record(z.string(), z.string()) })
      .meta({ id: 'DeliveryRequest' })
      .nullable()
      .describe(
        'The request of the last attempt, with the present URL and secret of the webhook. Null ' +
          'before the first attempt, and if the webhook or its secret is gone.',
      ),
  })
  .meta({ id: 'DeliveryDetail' });
export type DeliveryDetail = z.output<typeof deliveryDetail>;

export const deliveryList = z
  .strictObject({
    data: z.array(delivery).describe('Newest first.'),
    pagination: countedPagination,
  })
  .meta({ id: 'DeliveryList' });
export type DeliveryList = z.output<typeof deliveryList>;

export const retried = z
  .strictObject({ retried: z.int().describe('Number of deliveries that are pending again.') })
  .meta({ id: 'RetriedDeliveries' });
export type Retried = z.output<typeof retried>;

/**
 * Where a replay begins: with events at a time (ISO 8601) or later, or with one event and all after
 * it in the log.
 */
export type ReplayFrom = { time: string } | { eventId: string };

/** Body of POST /v1/webhooks/{id}/replay. */
export const replayRequest = z
  .strictObject({
    from: z
      .string()
      .transform((value, context): ReplayFrom => {
        if (isId('evt', value)) return { eventId: value };
        const time = parseTime(value, 'start');
        if (time !== null) return { time };
        context.addIssue({
          code: 'custom',
          message: 'must be an RFC 3339 time with an offset, or the id of an event (evt_...)',
        });
        return z.NEVER;
      })
      .describe('Where to start, inclusive: an RFC 3339 time or the id of an event.')
      .meta({ examples: ['2026-01-31T09:30:00Z'] }),
  })
  .meta({ id: 'ReplayRequest' });

export const acceptedReplay = z
  .strictObject({ accepted: z.literal(true) })
  .meta({ id: 'AcceptedReplay' });
export type AcceptedReplay = z.output<typeof acceptedReplay>;
