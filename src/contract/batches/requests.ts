import { z } from 'zod';
import { BATCH_STATUSES } from '../../domain/batch.ts';
import { PRIORITIES } from '../../domain/transfer.ts';
import { SCHEMES } from '../../domain/uri.ts';
import { pageQuery } from '../pages.ts';
import { batchId, metadata, transferUri } from '../transfers/requests.ts';

/** Items of one request at most. */
export const MOST_ITEMS = 1_000;
/** Largest body, in bytes. All of its items fit into one append of either event store. */
export const BATCH_BODY_LIMIT = 512 * 1024;

export const batchParams = z.object({ batch_id: batchId });
export const batchStatus = z.enum(BATCH_STATUSES);

const ownMetadata = metadata.optional().describe('In place of the `metadata` of the batch.');

const item = z
  .strictObject({
    source_uri: transferUri('source_uri').describe(`Where the file is read: ${SCHEMES}.`),
    destination_uri: transferUri('destination_uri').describe(
      'Where the file is written; the file name is appended if it ends in a slash.',
    ),
    priority: z.enum(PRIORITIES).optional().describe('In place of the `priority` of the batch.'),
    metadata: ownMetadata,
  })
  .meta({
    id: 'BatchItem',
    examples: [
      {
        source_uri: 'sftp://files.example.com/out/report.csv',
        destination_uri: 's3://archive/in/',
      },
    ],
  });

/** Body of POST /v1/batches. */
export const batchRequest = z
  .strictObject({
    items: z.array(item).min(1).max(MOST_ITEMS).describe('The files.'),
    priority: z.enum(PRIORITIES).default('normal').describe('Of each transfer.'),
    notify_on_complete: z.boolean().default(false).describe('For each transfer.'),
    metadata: metadata
      .nullish()
      .transform((value) => value ?? {})
      .describe('Of each transfer without `metadata` of its own.'),
  })
  .meta({
    id: 'BatchRequest',
    examples: [
      {
        items: [
          {
            source_uri: 'sftp://files.example.com/out/report.csv',
            destination_uri: 's3://archive/in/',
          },
          {
            source_uri: 'sftp://files.example.com/out/orders.csv',
            destination_uri: 's3://archive/in/',
            priority: 'high',
          },
        ],
      },
    ],
  });
export type BatchRequest = z.output<typeof batchRequest>;

/** Query of GET /v1/batches. */
export const batchQuery = z.strictObject({
  status: batchStatus.optional().describe('Only this status.'),
  ...pageQuery,
});

/** Query of GET /v1/batches/{id}/rejected. */
export const rejectedQuery = z.strictObject(pageQuery);
