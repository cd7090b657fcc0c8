import { z } from 'zod';
import { timestamp, transferError } from '../../commands/answers.ts';
import { text, transferRequest } from '../../commands/requests.ts';
import { PRIORITIES, TRANSFER_STATUSES } from '../../domain/transfer.ts';
import { type Edge, parseLimit, parseTime } from '../instants.ts';
import { pageQuery, pagination } from '../pages.ts';

const id = z.string().meta({ examples: ['txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });
const uri = (example: string) => z.string().meta({ format: 'uri', examples: [example] });
const source = uri('sftp://files.example.com/out/report.csv');
const destination = uri('s3://archive/in/report.csv');
const fileName = z.string().meta({ examples: ['report.csv'] });
const size = z
  .int()
  .nullable()
  .describe('File size in bytes; null until the source was opened.')
  .meta({ examples: [1048576] });
const status = z.enum(TRANSFER_STATUSES);

export const transferParams = z.object({ transfer_id: id });

function limit(edge: Edge) {
  return z.string().transform((value, context) => {
    const instant = parseLimit(value, edge);
    if (instant !== null) return instant;
    context.addIssue({ code: 'custom', message: 'must be a date (YYYY-MM-DD) or an RFC 3339 time with an offset, with + written as %2B' });
    return z.NEVER;
  });
}

export const listQuery = z
  .strictObject({
    status: status.optional().describe('Exactly this state. What waits is `queued`, between attempts too; `pending` lasts for moments.'),
    from_date: limit('start').optional().describe('Created on or after it: a date (`YYYY-MM-DD`, UTC) or an RFC 3339 time with an offset.'),
    to_date: limit('end')
      .optional()
      .describe('Created on or before it, the whole day included: a date (`YYYY-MM-DD`, UTC) or an RFC 3339 time with an offset.'),
    destination: text.min(1).optional().describe('Start of the destination URI, taken literally.'),
    ...pageQuery,
  })
  .refine(({ from_date, to_date }) => from_date === undefined || to_date === undefined || from_date <= to_date, {
    path: ['from_date'],
    message: 'must not be later than to_date',
  });

/** A time, as an ISO instant with milliseconds, or a revision. */
export type AsOf = { time: string } | { revision: number };

export const detailQuery = z.strictObject({
  as_of: z
    .string()
    .transform((value, context): AsOf => {
      if (/^\d{1,9}$/.test(value)) return { revision: Number(value) };
      const time = parseTime(value);
      if (time !== null) return { time };
      context.addIssue({ code: 'custom', message: 'must be a revision or an RFC 3339 time with an offset, with + written as %2B' });
      return z.NEVER;
    })
    .optional()
    .describe('The state at an RFC 3339 time, or at a revision of the history, instead of now.'),
});

export const transferBody = transferRequest.meta({
  id: 'TransferRequest',
  examples: [
    {
      source_uri: 'sftp://files.example.com/out/report.csv',
      destination_uri: 's3://archive/in/',
      priority: 'high',
      metadata: { order: '4711' },
    },
  ],
});

export const transferListItem = z
  .strictObject({
    id,
    file_name: fileName,
    size_bytes: size,
    status,
    source,
    destination,
    created_at: timestamp,
    completed_at: timestamp.nullable().describe('null until completed.'),
  })
  .meta({ id: 'TransferListItem' });
export type TransferListItem = z.output<typeof transferListItem>;

export const transferList = z
  .strictObject({
    data: z.array(transferListItem).describe('Newest first: by `created_at`, then by `id`.'),
    pagination,
  })
  .meta({ id: 'TransferList' });
export type TransferList = z.output<typeof transferList>;

export const createdTransfer = z
  .strictObject({
    id,
    status: z.literal('pending'),
    source_uri: source.describe('As submitted.'),
    destination_uri: destination.describe('As submitted.'),
    priority: z.enum(PRIORITIES),
    created_at: timestamp,
    estimated_start: timestamp.describe('When a mover is likely to take it up.'),
  })
  .meta({ id: 'CreatedTransfer' });
export type CreatedTransfer = z.output<typeof createdTransfer>;

export const transferDetail = z
  .strictObject({
    id,
    file_name: fileName,
    size_bytes: size,
    transferred_bytes: z.int(),
    progress_pct: z.number().describe('100 only when completed.'),
    status,
    speed_bps: z.int().nullable().describe('Bits per second, averaged over the attempt; null before anything was measured.'),
    source,
    destination: destination.describe('With the file name where the submitted one ended in a slash.'),
    checksum_sha256: z.string().nullable().describe('SHA-256 of the file, in lowercase hex; null until completed.'),
    created_at: timestamp,
    completed_at: timestamp.nullable().describe('null until completed.'),
    retry_count: z.int(),
    error: transferError.nullable().describe('Why the transfer failed, or why its last attempt did; null where there is no error.'),
    priority: z.enum(PRIORITIES),
    metadata: z.record(z.string(), z.string()),
  })
  .meta({ id: 'TransferDetail' });
export type TransferDetail = z.output<typeof transferDetail>;

export const cancelledTransfer = z
  .strictObject({ id, status: z.literal('cancelled'), cancelled_at: timestamp })
  .meta({ id: 'CancelledTransfer' });
export type CancelledTransfer = z.output<typeof cancelledTransfer>;

const historyItem = z
  .strictObject({
    id: z
      .string()
      .describe('Event ids of one transfer strictly increase: order by them.')
      .meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    type: z.string().meta({ examples: ['transfer.created'] }),
    revision: z.int().describe('Place in the history of the transfer, from 0.'),
    position: z.string().describe('Place in the whole log, as a decimal string.'),
    occurred_at: timestamp,
    actor: z
      .string()
      .describe('Who caused it.')
      .meta({ examples: ['key:key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'HistoryItem' });
export type HistoryItem = z.output<typeof historyItem>;

export const history = z.strictObject({ data: z.array(historyItem).describe('Oldest first.') }).meta({ id: 'TransferHistory' });
export type History = z.output<typeof history>;
