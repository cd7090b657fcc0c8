import { z } from 'zod';
import {
  PRIORITIES,
  TRANSFER_STATUSES,
  type TransferStatus,
} from '../../domain/transfers/transfer.ts';
import { timestamp } from '../instants.ts';
import { listingError } from '../listing-error.ts';
import { pagination } from '../pages.ts';
import { afterRequested } from '../transfers/after.ts';
import { bulkAnswer } from '../transfers/bulk.ts';
import { commonOptions } from '../transfers/options.ts';
import { batchId, flowId, transferId } from '../transfers/requests.ts';
import { uri } from '../uri.ts';
import { batchStatus } from './requests.ts';

const folder = z
  .strictObject({
    source_uri: uri('sftp://files.example.com/out/'),
    destination_uri: uri('s3://archive/in/'),
    pattern: z.string().meta({ examples: ['*.csv'] }),
    recursive: z.boolean(),
    exclude: z.array(z.string().meta({ examples: ['*.tmp'] })),
  })
  .meta({ id: 'BatchFolder' })
  .nullable()
  .describe('The folder whose files are the items. Null for a batch with `items`.');

const counts = z
  .strictObject({
    items: z.int().describe('Items so far: while a folder is listed, the number rises.'),
    ...(Object.fromEntries(TRANSFER_STATUSES.map((status) => [status, z.int()])) as Record<
      TransferStatus,
      z.ZodInt
    >),
    rejected: z
      .int()
      .describe('Items that cannot become transfers. They are among those that `failed`.'),
  })
  .meta({ id: 'BatchCounts' })
  .describe('The items by the status of their transfers.');

const bytes = z
  .strictObject({
    total: z.int().describe('Sum of the file sizes that are known so far.'),
    completed: z.int().describe('Sum of the file sizes of the completed transfers.'),
  })
  .meta({ id: 'BatchBytes' });

export const batch = z
  .strictObject({
    id: batchId,
    status: batchStatus.describe(
      'A cancelled batch has ended when `ended_at` is set: transfers in progress continue.',
    ),
    folder,
    retry_of: batchId.nullable().describe('The batch whose failed items it repeats, or null.'),
    flow_id: flowId.nullable().describe('The flow whose run it is, or null.'),
    priority: z.enum(PRIORITIES),
    notify_on_complete: z.boolean(),
    metadata: z.record(z.string(), z.string()),
    after: afterRequested
      .optional()
      .describe('What each transfer does after it has completed. Absent if it does nothing.'),
    // Absent unless asked for.
    ...commonOptions,
    failing: z
      .strictObject({ since: timestamp, error: listingError })
      .meta({ id: 'BatchFailure' })
      .nullable()
      .describe(
        'Why its folder cannot be listed now. Waybill tries a few times, then rejects the folder ' +
          'as an item. Null if all goes well.',
      ),
    counts,
    bytes,
    created_at: timestamp,
    ended_at: timestamp.nullable().describe('When its last transfer ended. Null until then.'),
  })
  .meta({ id: 'Batch' });
export type BatchAnswer = z.output<typeof batch>;

export const createdBatch = z
  .strictObject({
    ...batch.shape,
    transfer_ids: z
      .array(transferId)
      .optional()
      .describe('The transfers of `items`, in order. Absent for a folder.'),
  })
  .meta({ id: 'CreatedBatch' });
export type CreatedBatch = z.output<typeof createdBatch>;

export const cancelledBatch = z
  .strictObject({
    id: batchId,
    status: z.literal('cancelled'),
    cancelled_at: timestamp,
    cancelled: z.int().describe('Transfers that are cancelled now.'),
    not_cancelled: bulkAnswer.shape.refusals.describe(
      'Transfers that could not be cancelled, with the reasons. Those in progress continue.',
    ),
    has_more: z
      .boolean()
      .describe('True if more transfers are left. The service continues to cancel them.'),
  })
  .meta({ id: 'CancelledBatch' });
export type CancelledBatch = z.output<typeof cancelledBatch>;

export const batchList = z
  .strictObject({ data: z.array(batch).describe('Newest first.'), pagination })
  .meta({ id: 'BatchList' });
export type BatchList = z.output<typeof batchList>;

export const rejectedItems = z
  .strictObject({
    data: z.array(
      z
        .strictObject({
          item: z.int().describe('Place of the item in the batch, from 0.'),
          source_uri: uri('sftp://files.example.com/out/a%0Ab.csv'),
          error: z
            .strictObject({
              code: z.string().meta({ examples: ['validation_failed'] }),
              message: z
                .string()
                .meta({ examples: ['must not contain control characters, encoded or not'] }),
            })
            .meta({ id: 'RejectionReason' }),
        })
        .meta({ id: 'RejectedItem' }),
    ),
    pagination,
  })
  .meta({ id: 'RejectedItems' });
export type RejectedItems = z.output<typeof rejectedItems>;
