import { z } from 'zod';
import {
  PRIORITIES,
  TRANSFER_STATUSES,
  type TransferStatus,
} from '../../domain/transfers/transfer.ts';
import { WAITING_REASONS } from '../../domain/transfers/waiting-for.ts';
import { timestamp } from '../instants.ts';
import { account } from '../keys.ts';
import { searchPagination } from '../pages.ts';
import { uri } from '../uri.ts';
import { afterAnswer } from './after.ts';
import { transferError, transferErrorCode } from './errors.ts';
import { transferOptions } from './options.ts';
import { batchId, transferId, transferStatus } from './requests.ts';

/** Failed transfers whose error codes and endpoints a summary counts, newest first. */
export const COUNTED_FAILURES = 10_000;

const source = uri('sftp://files.example.com/out/report.csv');
const destination = uri('s3://archive/in/report.csv');
const fileName = z.string().meta({ examples: ['report.csv'] });
const size = z
  .int()
  .nullable()
  .describe('File size in bytes. Null until the source is opened.')
  .meta({ examples: [1048576] });

const retryOf = transferId
  .nullable()
  .describe('The failed or cancelled transfer that this one repeats. Null if it repeats none.');

const waitingFor = z
  .strictObject({
    reason: z.enum(WAITING_REASONS),
    message: z.string().meta({ examples: ['The endpoint bank is paused.'] }),
    until: timestamp
      .nullable()
      .describe(
        'Time of the next attempt (`retry_at`), or end of the lease or hold ' +
          '(`previous_lease`, `sign_ins_on_hold`). Else null.',
      ),
    endpoint_id: z
      .string()
      .nullable()
      .describe('The endpoint in question. Null if the account may not use it (any more).'),
    in_use: z
      .int()
      .nullable()
      .describe('Transfers of all accounts that use the endpoint. Only for `endpoint_full`.'),
    limit: z
      .int()
      .nullable()
      .describe('Transfers that may use it at once. Only for `endpoint_full`.'),
  })
  .meta({ id: 'WaitingFor' })
  .nullable()
  .describe(
    'Why the transfer does not move. Null while it moves, after its end, and with `as_of`. ' +
      'Accept reasons that you do not know.',
  );

const endedAt = timestamp
  .nullable()
  .describe('When it completed, failed or was cancelled. Null while it is open.');

const lastError = transferError
  .nullable()
  .describe('Why the transfer or its last attempt failed. Null if there is no error.');

const transferListItem = z
  .strictObject({
    id: transferId,
    file_name: fileName,
    size_bytes: size,
    status: transferStatus,
    source,
    destination,
    created_at: timestamp,
    completed_at: timestamp.nullable().describe('Null until completed.'),
    ended_at: endedAt,
    error: lastError,
    retry_of: retryOf,
    waiting_for: waitingFor,
  })
  .meta({ id: 'TransferListItem' });
export type TransferListItem = z.output<typeof transferListItem>;

export const transferList = z
  .strictObject({
    data: z
      .array(transferListItem)
      .describe('Newest first, unless `sort` says otherwise: by `created_at`, then by `id`.'),
    pagination: searchPagination,
  })
  .meta({ id: 'TransferList' });
export type TransferList = z.output<typeof transferList>;

const counted = {
  transfers: z.int(),
  first_failed_at: timestamp,
  last_failed_at: timestamp,
};

const transferCounts = z
  .strictObject(
    Object.fromEntries(TRANSFER_STATUSES.map((status) => [status, z.int()])) as Record<
      TransferStatus,
      z.ZodInt
    >,
  )
  .meta({ id: 'TransferCounts' });

export const transferSummary = z
  .strictObject({
    total: z.int(),
    by_status: transferCounts,
    failures: z
      .array(
        z.strictObject({ code: transferErrorCode, ...counted }).meta({ id: 'TransferFailures' }),
      )
      .describe(
        `The failed transfers by error code, the most frequent first. With more than ` +
          `${COUNTED_FAILURES} failed transfers, the newest ${COUNTED_FAILURES} are counted.`,
      ),
    failures_by_endpoint: z
      .array(
        z
          .strictObject({
            endpoint_id: z.string().meta({ examples: ['end_01J00000000000000000000000'] }),
            name: z
              .string()
              .nullable()
              .describe('Null if the endpoint was removed, or if the account may not use it.')
              .meta({ examples: ['bank'] }),
            ...counted,
          })
          .meta({ id: 'EndpointFailures' }),
      )
      .describe(
        'The same failed transfers by the endpoint at which they failed, the most frequent first. ' +
          'Has none that failed before a server was asked, and none that an operator ended.',
      ),
    retried: z.int().describe('How many of the failed transfers were retried.'),
  })
  .meta({ id: 'TransferSummary' });
export type TransferSummary = z.output<typeof transferSummary>;

/** The most hours that a series of transfers has: those of six weeks. */
export const SERIES_HOURS = 1_008;

export const transferSeries = z
  .strictObject({
    data: z
      .array(
        z
          .strictObject({
            at: timestamp.describe('When the hour begins. Hours are those of UTC.'),
            by_status: transferCounts,
          })
          .meta({ id: 'TransferHour' }),
      )
      .describe(
        'Oldest first, by the time of creation. Hours without transfers are omitted. With more ' +
          `than ${SERIES_HOURS} hours, the newest ${SERIES_HOURS} are returned.`,
      ),
  })
  .meta({ id: 'TransferSeries' });
export type TransferSeries = z.output<typeof transferSeries>;

export const createdTransfer = z
  .strictObject({
    id: transferId,
    status: z.literal('pending'),
    source_uri: source.describe('As submitted.'),
    destination_uri: destination.describe('As submitted.'),
    priority: z.enum(PRIORITIES),
    created_at: timestamp,
    estimated_start: timestamp.describe('Estimated time at which a mover starts it.'),
  })
  .meta({ id: 'CreatedTransfer' });
export type CreatedTransfer = z.output<typeof createdTransfer>;

export const retriedTransfer = z
  .strictObject({
    ...createdTransfer.shape,
    retry_of: transferId.describe('The transfer that this one repeats.'),
  })
  .meta({ id: 'RetriedTransfer' });
export type RetriedTransfer = z.output<typeof retriedTransfer>;

/**
 * The answer for one transfer. The live stream has the same fields (`liveTransfer`). The chaos
 * checker compares every field: `detail` in `test/chaos/checker/shown/answers.ts`.
 */
export const transferDetail = z
  .strictObject({
    id: transferId,
    file_name: fileName,
    size_bytes: size,
    transferred_bytes: z.int(),
    progress_pct: z.number().describe('100 only when completed.'),
    status: transferStatus,
    speed_bps: z
      .int()
      .nullable()
      .describe('Bits per second, averaged over the attempt. Null before the first measurement.'),
    source,
    destination: destination.describe(
      'Has the file name appended if the submitted URI ends in a slash.',
    ),
    checksum_sha256: z
      .string()
      .nullable()
      .describe('SHA-256 of the file, in lowercase hex. Null until completed.'),
    created_at: timestamp,
    completed_at: timestamp.nullable().describe('Null until completed.'),
    ended_at: endedAt,
    retry_count: z.int(),
    error: lastError,
    priority: z.enum(PRIORITIES),
    metadata: z.record(z.string(), z.string()),
    retry_of: retryOf,
    batch_id: batchId.nullable().describe('The batch that it belongs to. Null if none.'),
    // Absent unless asked for.
    ...transferOptions,
    waiting_for: waitingFor,
    after: afterAnswer
      .optional()
      .describe('What it does after it has completed. Absent if it does nothing.'),
  })
  .meta({ id: 'TransferDetail' });
export type TransferDetail = z.output<typeof transferDetail>;

export const cancelledTransfer = z
  .strictObject({ id: transferId, status: z.literal('cancelled'), cancelled_at: timestamp })
  .meta({ id: 'CancelledTransfer' });
export type CancelledTransfer = z.output<typeof cancelledTransfer>;

const liveTransfer = z
  .strictObject({
    ...transferDetail.shape,
    account,
    seconds_left: z
      .int()
      .nullable()
      .describe('Estimated from the speed so far. Null if that is unknown.'),
  })
  .meta({ id: 'LiveTransfer' });

export type LiveTransfer = z.output<typeof liveTransfer>;

export const liveTransfers = z
  .strictObject({
    transfers: z.array(liveTransfer),
    more_ended: z
      .int()
      .describe(
        'Transfers that have ended since and are in no event: of the account, or of all accounts ' +
          'with the scope `admin`.',
      ),
  })
  .describe(
    'The data of an event. `snapshot` has the open transfers, `changes` those that changed ' +
      'since, including ended ones.',
  )
  .meta({ id: 'LiveTransfers' });
