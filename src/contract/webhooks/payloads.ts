import { z } from 'zod';
import { PROTOCOL_NAMES } from '../../domain/protocols/index.ts';
import { PRIORITIES, type TransferStatus } from '../../domain/transfers/transfer.ts';
import type { WebhookEventType } from '../../domain/webhook.ts';
import { timestamp } from '../instants.ts';
import { keyId, keyName } from '../keys.ts';
import { checkpoint } from '../proof.ts';
import { afterReason } from '../transfers/after.ts';
import { transferError } from '../transfers/errors.ts';
import { uri } from '../uri.ts';
import { webhookId } from './requests.ts';

const size = z.int().describe('File size in bytes.');

function transfer<Status extends TransferStatus>(status: Status) {
  return {
    transfer_id: z.string().meta({ examples: ['txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    file_name: z.string().meta({ examples: ['report.csv'] }),
    size_bytes: size.nullable().describe('File size in bytes. Null if the source was not opened.'),
    status: z.literal(status),
    source: uri('sftp://files.example.com/out/report.csv'),
    destination: uri('s3://archive/in/report.csv'),
  };
}

const marker = uri('s3://archive/in/report.csv.done').describe('The empty file.');

const describedFile = z
  .strictObject({
    size_bytes: size,
    version: z
      .string()
      .nullable()
      .describe('Modification time, ETag or version, whichever the protocol has.')
      .meta({ examples: ['1767261600'] }),
  })
  .meta({ id: 'DescribedFile' });

const sourceTaken = {
  ...transfer('completed'),
  source_file: describedFile.describe('The file that was copied.'),
  confirmed: z
    .boolean()
    .describe(
      'False if an earlier try was interrupted, and the source was gone afterwards. Then something ' +
        'else may have removed it.',
    ),
};

const flow = {
  flow_id: z.string().meta({ examples: ['flo_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
  name: z.string().meta({ examples: ['orders'] }),
};

const outcome = z
  .enum(['completed', 'completed_with_failures', 'cancelled'])
  .meta({ id: 'BatchOutcome' });

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
    checksum_sha256: z
      .string()
      .describe('SHA-256 of the file, in lowercase hex.')
      .meta({ examples: ['b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c'] }),
  }),
  'transfer.failed': z.strictObject({
    ...transfer('failed'),
    error: transferError,
    retry_count: z.int(),
    failed_at: timestamp,
  }),
  'transfer.cancelled': z.strictObject({ ...transfer('cancelled'), cancelled_at: timestamp }),
  'transfer.marker_written': z.strictObject({
    ...transfer('completed'),
    marker,
    written_at: timestamp,
  }),
  'transfer.marker_failed': z.strictObject({
    ...transfer('completed'),
    marker,
    reason: afterReason,
    failed_at: timestamp,
  }),
  'transfer.source_deleted': z.strictObject({ ...sourceTaken, deleted_at: timestamp }),
  'transfer.source_moved': z.strictObject({
    ...sourceTaken,
    moved_to: uri('sftp://files.example.com/out/processed/report.csv'),
    moved_at: timestamp,
  }),
  'transfer.source_kept': z.strictObject({
    ...transfer('completed'),
    reason: afterReason,
    found: describedFile
      .nullable()
      .describe('The file that has its name now. Null if that is not the reason.'),
    kept_at: timestamp,
  }),
  'batch.completed': z.strictObject({
    batch_id: z.string().meta({ examples: ['bat_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    status: outcome,
    counts: z
      .strictObject({
        items: z.int(),
        completed: z.int(),
        failed: z.int().describe('Failed items, with those that could not become transfers.'),
        cancelled: z.int(),
      })
      .meta({ id: 'BatchCompletedCounts' })
      .describe('The items by their outcome.'),
    bytes: z.int().describe('Bytes of the completed transfers.'),
    created_at: timestamp,
    ended_at: timestamp,
  }),
  'flow.run_completed': z.strictObject({
    ...flow,
    run_id: z.string().meta({ examples: ['run_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    batch_id: z.string().meta({ examples: ['bat_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    status: outcome,
    counts: z
      .strictObject({
        files: z.int(),
        completed: z.int(),
        failed: z.int().describe('Failed files, with those that could not become transfers.'),
        cancelled: z.int(),
      })
      .meta({ id: 'FlowRunCompletedCounts' })
      .describe('The files by their outcome.'),
    bytes: z.int().describe('Bytes of the completed files.'),
    started_at: timestamp,
    ended_at: timestamp,
  }),
  'flow.run_failed': z.strictObject({
    ...flow,
    run_id: z.string().meta({ examples: ['run_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    error: z
      .strictObject({
        code: z.string().meta({ examples: ['permission_denied'] }),
        message: z.string().meta({ examples: ['/out: permission denied'] }),
        folder: z
          .string()
          .describe('The path below the folder of the flow.')
          .meta({ examples: ['2026/'] }),
      })
      .meta({ id: 'FlowRunFailedError' }),
    failed_at: timestamp,
  }),
  'flow.recovered': z.strictObject({
    ...flow,
    failed_since: timestamp,
    recovered_at: timestamp,
  }),
  'endpoint.connectivity_lost': z.strictObject({
    endpoint_id: z.string().meta({ examples: ['end_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    name: z.string().meta({ examples: ['archive'] }),
    protocol: z.enum(PROTOCOL_NAMES),
    host: z.string().meta({ examples: ['files.example.com'] }),
    last_success_at: timestamp.nullable(),
    detected_at: timestamp,
    error: transferError.pick({ code: true, message: true }).meta({ id: 'ConnectivityError' }),
  }),
  'key.expiring_soon': z.strictObject({
    key_id: keyId,
    name: keyName,
    expires_at: timestamp,
    days_remaining: z.int().describe('Whole days, rounded up.'),
  }),
  'log.checkpoint': z.strictObject(checkpoint.shape),
  ping: z.strictObject({ webhook_id: webhookId }),
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
