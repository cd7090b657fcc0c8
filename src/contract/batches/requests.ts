import { z } from 'zod';
import { BATCH_STATUSES } from '../../domain/batches/batch.ts';
import { objectionToGlob } from '../../domain/glob.ts';
import { text } from '../../domain/text.ts';
import { PRIORITIES } from '../../domain/transfers/transfer.ts';
import { SCHEMES } from '../../domain/uri.ts';
import { pageQuery } from '../pages.ts';
import { afterRequest } from '../transfers/after.ts';
import { commonOptions, transferOptions } from '../transfers/options.ts';
import { batchId, destinationUri, metadata, sourceUri, uriOf } from '../transfers/requests.ts';

/** Items of one request at most. */
export const MAX_ITEMS = 1_000;
/** Globs of files to leave out, at most. */
export const MAX_GLOBS = 20;

export const batchParams = z.object({ batch_id: batchId });
export const batchStatus = z.enum(BATCH_STATUSES);
/** A glob that chooses files of a folder. */
export const glob = text
  .min(1)
  .max(256)
  .superRefine((value, context) => {
    const message = objectionToGlob(value);
    if (message !== null) context.addIssue({ code: 'custom', message });
  });

const ownMetadata = metadata
  .nullish()
  .transform((value) => value ?? undefined)
  .describe('Replaces the `metadata` of the batch. Null has the same effect as no field.');

const item = z
  .strictObject({
    source_uri: sourceUri.describe(`Where the file is read: ${SCHEMES}.`),
    destination_uri: destinationUri.describe(
      'Where the file is written; the file name is appended if it ends in a slash.',
    ),
    priority: z.enum(PRIORITIES).optional().describe('Replaces the `priority` of the batch.'),
    metadata: ownMetadata,
    ...transferOptions,
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

const FOLDER_FIELDS = ['source_uri', 'destination_uri', 'pattern', 'recursive', 'exclude'] as const;

/** Body of POST /v1/batches. */
export const batchRequest = z
  .strictObject({
    items: z
      .array(item)
      .min(1)
      .max(MAX_ITEMS)
      .optional()
      .describe('The files, or else the fields of a folder.'),
    source_uri: uriOf('source_uri')
      .optional()
      .describe('A folder on a configured endpoint. It is listed once, after the answer.'),
    destination_uri: destinationUri
      .optional()
      .describe('The folder for its files; ends in a slash. The paths of the files are kept.'),
    pattern: glob
      .optional()
      .describe(
        'Only files that match this glob, `*` by default. A glob with a slash is compared with the ' +
          'path below the folder, any other with the name of the file. A backslash escapes the ' +
          'next character.',
      ),
    recursive: z.boolean().optional().describe('Files of its subfolders too. False by default.'),
    exclude: z
      .array(glob)
      .max(MAX_GLOBS)
      .optional()
      .describe('Globs of files to leave out, compared like `pattern`.'),
    priority: z.enum(PRIORITIES).default('normal').describe('The priority of each transfer.'),
    notify_on_complete: z.boolean().default(false).describe('Applies to each transfer.'),
    metadata: metadata
      .nullish()
      .transform((value) => value ?? {})
      .describe('The metadata of each transfer whose item has none.'),
    after: afterRequest,
    ...commonOptions,
  })
  .superRefine((request, context) => {
    const issue = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (request.items !== undefined) {
      for (const field of FOLDER_FIELDS)
        if (request[field] !== undefined) issue(field, 'must not be given with items');
    } else if (request.source_uri === undefined)
      issue('items', 'must be given, or else source_uri: exactly one of the two');
    else if (request.destination_uri === undefined) issue('destination_uri', 'is required');
    else if (!request.destination_uri.endsWith('/'))
      issue('destination_uri', 'must end in a slash: it is the folder for all files');
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
      {
        source_uri: 'sftp://files.example.com/out/',
        destination_uri: 's3://archive/in/',
        pattern: '*.csv',
        recursive: true,
        exclude: ['*.tmp'],
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
