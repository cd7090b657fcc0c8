import { z } from 'zod';
import { PROTOCOL_NAMES } from '../../domain/protocols/index.ts';
import { PRIORITIES, type TransferStatus } from '../../domain/transfer.ts';
import type { WebhookEventType } from '../../domain/webhook.ts';
import { timestamp } from '../instants.ts';
import { transferError, transferErrorCode } from '../transfers/errors.ts';

const uri = z.string().meta({ format: 'uri' });
const size = z.int().describe('File size in bytes.');

function transfer<Status extends TransferStatus>(status: Status) {
  return {
    transfer_id: z.string().meta({ examples: ['txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    file_name: z.string(),
    size_bytes: size.nullable().describe('File size in bytes. Null if the source was not opened.'),
    status: z.literal(status),
    source: uri,
    destination: uri,
  };
}

/** `data` of a payload, by event type. A `ping` is sent on request and is in no history. */
export const PAYLOADS = {
  'transfer.created': z.strictObject({
    ...transfer('pending'),
    priority: z.enum(PRIORITIES),
    created_at: timestamp,
  }),
  'transfer.in_progress': z.strictObject({
    ...transfer('in_progress'),
    started_at: timestamp,
    retry_count: z.int().describe('0 for the first attempt. Each attempt sends this event.'),
  }),
  'transfer.completed': z.strictObject({
    ...transfer('completed'),
    size_bytes: size,
    duration_ms: z.int(),
    checksum_sha256: z.string().describe('SHA-256 of the file, in lowercase hex.'),
  }),
  'transfer.failed': z.strictObject({
    ...transfer('failed'),
    error: transferError,
    retry_count: z.int(),
    failed_at: timestamp,
  }),
  'transfer.cancelled': z.strictObject({ ...transfer('cancelled'), cancelled_at: timestamp }),
  'endpoint.connectivity_lost': z.strictObject({
    endpoint_id: z.string(),
    name: z.string(),
    protocol: z.enum(PROTOCOL_NAMES),
    host: z.string(),
    last_success_at: timestamp.nullable(),
    detected_at: timestamp,
    error: z.strictObject({ code: transferErrorCode, message: z.string() }),
  }),
  'key.expiring_soon': z.strictObject({
    key_id: z.string(),
    name: z.string(),
    expires_at: timestamp,
    days_remaining: z.int().describe('Whole days, rounded up.'),
  }),
  ping: z.strictObject({ webhook_id: z.string() }),
} satisfies Record<WebhookEventType | 'ping', z.ZodType>;

export type PayloadType = keyof typeof PAYLOADS;
export type PayloadData<Type extends PayloadType> = z.output<(typeof PAYLOADS)[Type]>;

/** The body of a delivery. */
export interface Payload<Type extends PayloadType = PayloadType> {
  /** `evt_...`, the same in every attempt. The ids of one transfer strictly increase. */
  id: string;
  type: Type;
  created_at: string;
  data: PayloadData<Type>;
}

/** Returns the schema of a delivery's body. */
export function payloadSchema(type: PayloadType) {
  return z.strictObject({
    id: z
      .string()
      .describe(
        'The same in every attempt: skip an id that you have handled. ' +
          'The ids of one transfer strictly increase: order events by id.',
      )
      .meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    type: z.literal(type),
    created_at: timestamp.describe('When it happened.'),
    data: PAYLOADS[type],
  });
}
