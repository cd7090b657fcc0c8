import { z } from 'zod';
import { RUN_REASONS } from '../../domain/flows/flow.ts';
import { PRIORITIES, TRANSFER_STATUSES } from '../../domain/transfers/transfer.ts';
import { timestamp } from '../instants.ts';
import { listingError } from '../listing-error.ts';
import { pagination } from '../pages.ts';
import { afterRequested } from '../transfers/after.ts';
import { batchId, flowId, transferId } from '../transfers/requests.ts';
import { uri } from '../uri.ts';
import { flowStart, flowStatus } from './requests.ts';

const runId = z.string().meta({ examples: ['run_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });
const path = z.string().meta({ examples: ['2026/orders.csv'] });
const version = z
  .string()
  .describe('Size and ETag, or size and time of the last change.')
  .meta({ examples: ['4711 2026-03-01T10:00:00.000Z'] });

export const RUN_STATUSES = [
  'requested',
  'listing',
  'open',
  'completed',
  'completed_with_failures',
  'cancelled',
  'empty',
  'failed',
] as const;

const flowRun = z
  .strictObject({
    id: runId,
    status: z
      .enum(RUN_STATUSES)
      .meta({ id: 'FlowRunStatus' })
      .describe(
        'A run is `listing` until it knows its files, then `open` until all of them have ended. An ' +
          '`empty` run found nothing to take, a `failed` one could not list the folder.',
      ),
    reason: z
      .enum(RUN_REASONS)
      .meta({ id: 'FlowRunReason' })
      .describe('`request`: you asked for it. `schedule`: it was due, or a file became ready.'),
    batch_id: batchId.nullable().describe('The batch with its files. Null if it took none.'),
    error: listingError
      .nullable()
      .describe('Why a folder could not be listed. The files of other folders are taken.'),
    counts: z
      .strictObject({
        files: z.int(),
        completed: z.int(),
        failed: z.int().describe('Failed files, with those that cannot become transfers.'),
        cancelled: z.int(),
      })
      .meta({ id: 'FlowRunCounts' })
      .nullable()
      .describe('The files by their outcome. Null until the run has ended.'),
    bytes: z.int().nullable().describe('Bytes of the completed files. Null until the run ended.'),
    started_at: timestamp,
    ended_at: timestamp.nullable(),
  })
  .meta({ id: 'FlowRun' });
export type FlowRunAnswer = z.output<typeof flowRun>;

const nullableText = (description: string, example: string) =>
  z
    .string()
    .nullable()
    .describe(description)
    .meta({ examples: [example] });

export const flow = z
  .strictObject({
    id: flowId,
    name: z.string().meta({ examples: ['orders'] }),
    status: flowStatus,
    source: z
      .strictObject({
        uri: uri('sftp://partner/out/'),
        pattern: z.string().meta({ examples: ['*.csv'] }),
        exclude: z.array(z.string().meta({ examples: ['*.tmp'] })),
        recursive: z.boolean(),
      })
      .meta({ id: 'FlowFolder' }),
    ready: z
      .strictObject({
        unchanged_for: nullableText('Null if a marker says when.', '30s'),
        marker: nullableText('Null if no marker is needed.', '.done'),
      })
      .meta({ id: 'FlowReady' }),
    trigger: z
      .strictObject({
        every: nullableText('Null for a trigger with `cron`.', '5m'),
        cron: nullableText('Null for a trigger with `every`.', '0 6 * * 1-5'),
        time_zone: nullableText('Null for a trigger with `every`.', 'Europe/Berlin'),
      })
      .meta({ id: 'FlowTrigger' })
      .nullable()
      .describe('Null for a flow that runs only when a request asks for it.'),
    destination_uri: z.string().meta({ examples: ['s3://archive/{date:yyyy-MM-dd}/'] }),
    priority: z.enum(PRIORITIES),
    metadata: z.record(z.string(), z.string()),
    after: afterRequested
      .nullable()
      .describe('What follows the copy of each file. Null if nothing follows.'),
    start: flowStart,
    created_at: timestamp,
    updated_at: timestamp,
    last_run_at: timestamp
      .nullable()
      .describe('When the folder was last listed, also if there was nothing to take.'),
    last_success_at: timestamp.nullable().describe('When a listing last succeeded.'),
    next_run_at: timestamp
      .nullable()
      .describe(
        'When it runs next. In the past if a run is overdue. Null if it is paused, ' +
          'has no trigger, or if a run is being listed.',
      ),
    delayed_by: runId
      .nullable()
      .describe('The open run that the next one waits for, if it is due. Null if none.'),
    waiting_files: z.int().describe('Files that were not ready at the last listing.'),
    failing: z
      .strictObject({ since: timestamp, error: listingError })
      .meta({ id: 'FlowFailure' })
      .nullable()
      .describe('Why the last listing failed. Null if it succeeded.'),
    recent_runs: z
      .array(flowRun)
      .describe('The last runs that took files or failed, newest first.'),
  })
  .meta({ id: 'Flow' });
export type FlowAnswer = z.output<typeof flow>;

export const flowList = z
  .strictObject({ data: z.array(flow).describe('Newest first.'), pagination })
  .meta({ id: 'FlowList' });
export type FlowList = z.output<typeof flowList>;

export const removedFlow = z
  .strictObject({ id: flowId, status: z.literal('removed'), removed_at: timestamp })
  .meta({ id: 'RemovedFlow' });
export type RemovedFlow = z.output<typeof removedFlow>;

const requestedRun = z.strictObject({ id: runId, status: z.literal('requested') });
export type RequestedRun = z.output<typeof requestedRun>;

const counts = z
  .strictObject({ take: z.int(), wait: z.int(), taken: z.int(), reject: z.int() })
  .meta({ id: 'DryRunCounts' });

/** What a run would do now. */
const dryRun = z.strictObject({
  counts: counts.describe('Files by what a run would do with them.'),
  data: z
    .array(
      z
        .strictObject({
          path: path.describe('The path below the folder of the flow.'),
          size: z.int().nullable(),
          modified_at: timestamp.nullable(),
          decision: z
            .enum(['take', 'wait', 'taken', 'reject'])
            .meta({ id: 'DryRunDecision' })
            .describe(
              '`taken`: an earlier run took or skipped this version. `reject`: it cannot become ' +
                'a transfer.',
            ),
          reason: z.string().meta({ examples: ['New'] }),
          destination_uri: z
            .string()
            .nullable()
            .describe('Null for a file that is not taken, or that cannot become a transfer.')
            .meta({ examples: ['s3://archive/2026-03-01/orders.csv'] }),
        })
        .meta({ id: 'DryRunFile' }),
    )
    .describe('In the order of the paths, at most 1,000.'),
  error: listingError.nullable().describe('Why a folder could not be listed.'),
  truncated: z.boolean().describe('True if there are more files than `data` has.'),
});
export type DryRun = z.output<typeof dryRun>;

/** Either of the two. Most generators of clients give an operation one type of answer. */
export const runAnswer = z
  .strictObject({ ...requestedRun.partial().shape, ...dryRun.partial().shape })
  .meta({
    id: 'RunAnswer',
    description: 'Has `id` and `status`, or with `dry_run` the other fields.',
  });
export const EXAMPLE_RUN: RequestedRun = {
  id: 'run_01JZ8Q6W3N5V4T2R1P0M9K8J7H',
  status: 'requested',
};
export const EXAMPLE_DRY_RUN: DryRun = {
  counts: { take: 1, wait: 0, taken: 0, reject: 0 },
  data: [
    {
      path: '2026/orders.csv',
      size: 1_048_576,
      modified_at: '2026-01-31T09:30:00.000Z',
      decision: 'take',
      reason: 'New',
      destination_uri: 's3://archive/2026-01-31/orders.csv',
    },
  ],
  error: null,
  truncated: false,
};

export const flowRunList = z
  .strictObject({
    data: z.array(flowRun).describe('Newest first. A run by schedule that took nothing is absent.'),
    pagination,
  })
  .meta({ id: 'FlowRunList' });
export type FlowRunList = z.output<typeof flowRunList>;

export const flowFileList = z
  .strictObject({
    data: z
      .array(
        z
          .strictObject({
            source_uri: uri('sftp://partner/out/orders.csv'),
            version,
            status: z
              .enum([...TRANSFER_STATUSES, 'rejected', 'skipped', 'removed'])
              .meta({ id: 'FlowFileStatus' })
              .describe(
                'The status of its transfer. `rejected` cannot become a transfer. `skipped` was there when the ' +
                  'flow was created. `removed` has a transfer that left the log by retention.',
              ),
            attempts: z.int().describe('Runs that took it: a failed file is taken again.'),
            run_id: runId.nullable(),
            transfer_id: transferId.nullable(),
            error: z
              .strictObject({
                code: z.string().meta({ examples: ['permission_denied'] }),
                message: z.string().meta({ examples: ['permission denied'] }),
              })
              .meta({ id: 'FlowFileError' })
              .nullable(),
            taken_at: timestamp,
          })
          .meta({ id: 'FlowFile' }),
      )
      .describe('Versions of files, newest first.'),
    pagination,
  })
  .meta({ id: 'FlowFileList' });
export type FlowFileList = z.output<typeof flowFileList>;
