import { z } from 'zod';
import { durationWithin } from '../../domain/durations.ts';
import { FLOW_STARTS, FLOW_STATUSES, type FlowReady } from '../../domain/flows/flow.ts';
import { objectionToTemplate } from '../../domain/flows/template.ts';
import { EVERY_MS, type FlowTrigger, objectionToCron } from '../../domain/flows/trigger.ts';
import { plain, text, title } from '../../domain/text.ts';
import { PRIORITIES } from '../../domain/transfers/transfer.ts';
import { glob, MAX_GLOBS } from '../batches/requests.ts';
import { changes } from '../changes.ts';
import { pageQuery } from '../pages.ts';
import { words } from '../search-words.ts';
import { timeZone } from '../time-zone.ts';
import { afterRequest } from '../transfers/after.ts';
import { flowId, metadata, uriOf } from '../transfers/requests.ts';

const MAX_UNCHANGED_MS = 24 * 3_600_000;
const UNCHANGED_FOR = { unchanged_for: '30s' };

export const flowParams = z.object({ flow_id: flowId });
export const flowStatus = z.enum(FLOW_STATUSES).exclude(['removed']).meta({ id: 'FlowStatus' });
export const flowStart = z.enum(FLOW_STARTS).meta({ id: 'FlowStart' });

const duration = (least: number, most: number, range: string) =>
  text
    .max(12)
    .refine(
      (value) => durationWithin(value, least, most) !== null,
      `must be a duration ${range}, such as 30s, 5m or 1h`,
    )
    .transform((value) => value.trim());

const folderUri = uriOf('source.uri').transform((value) =>
  value.endsWith('/') ? value : `${value}/`,
);

const source = z
  .strictObject({
    uri: folderUri
      .describe('A folder on a configured endpoint.')
      .meta({ examples: ['sftp://partner/out/'] }),
    pattern: glob
      .default('*')
      .describe(
        'Only files that match this glob. A glob with a slash is compared with the path below the ' +
          'folder, any other with the name of the file. A backslash escapes the next ' +
          'character.',
      )
      .meta({ examples: ['*.csv'] }),
    exclude: z
      .array(glob.meta({ examples: ['*.tmp'] }))
      .max(MAX_GLOBS)
      .default([])
      .describe('Globs of files to leave out, compared like `pattern`.'),
    recursive: z.boolean().default(false).describe('Files of its subfolders too.'),
  })
  .meta({ id: 'FlowSource' });

const marker = plain
  .min(1)
  .max(32)
  .refine((value) => !value.includes('/'), 'must not contain a slash');

const ready = z
  .strictObject({
    unchanged_for: duration(0, MAX_UNCHANGED_MS, 'from 0s to 1d')
      .nullish()
      .describe('A file is ready when its size and time have not changed for this long.')
      .meta({ examples: ['30s'] }),
    marker: marker
      .nullish()
      .describe(
        'A file is ready when a file with its name and this end is beside it, and is not older. ' +
          'Files whose names end so are never taken.',
      )
      .meta({ examples: ['.done'] }),
  })
  .transform(({ unchanged_for, marker: end }, context): FlowReady => {
    if (unchanged_for != null && end == null) return { unchanged_for };
    if (end != null && unchanged_for == null) return { marker: end };
    context.addIssue({
      code: 'custom',
      message: 'must have unchanged_for or marker, and not both',
    });
    return z.NEVER;
  })
  .meta({ id: 'FlowReadyRequest', examples: [{ unchanged_for: '30s' }] });

const trigger = z
  .strictObject({
    every: duration(EVERY_MS.least, EVERY_MS.most, 'from 5s to 31d')
      .nullish()
      .describe('The time from the start of a run to the start of the next.')
      .meta({ examples: ['5m'] }),
    cron: text
      .max(128)
      .superRefine((value, context) => {
        const message = objectionToCron(value);
        if (message !== null) context.addIssue({ code: 'custom', message });
      })
      .nullish()
      .describe('Minute, hour, day of the month, month and day of the week.')
      .meta({ examples: ['0 6 * * 1-5'] }),
    time_zone: timeZone
      .nullish()
      .describe('The time zone of `cron`, UTC by default.')
      .meta({ examples: ['Europe/Berlin'] }),
  })
  .transform(({ every, cron, time_zone }, context): FlowTrigger => {
    if (every != null && cron == null && time_zone == null) return { every };
    if (cron != null && every == null) return { cron, time_zone: time_zone ?? 'UTC' };
    const message = 'must have every, or cron and perhaps time_zone';
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  })
  .meta({ id: 'FlowTriggerRequest', examples: [{ every: '5m' }] })
  .nullable()
  .describe('When the flow runs. Null for a flow that runs only when a request asks for it.');

const template = text.max(2_048).superRefine((value, context) => {
  const objection = objectionToTemplate(value);
  if (objection)
    context.addIssue({
      code: 'custom',
      message: objection.message,
      params: { code: objection.code },
    });
});

const fields = {
  name: title
    .min(1)
    .max(64)
    .meta({ examples: ['orders'] }),
  source,
  ready,
  trigger,
  destination_uri: template
    .describe(
      'Where each file is written. `{path}` is its path below the folder, `{name}` its name, ' +
        '`{flow}` the name of the flow and `{date:yyyy-MM-dd}` the time of the run, in the time zone ' +
        'of the trigger. The path is appended if it ends in a slash.',
    )
    .meta({ examples: ['s3://archive/{date:yyyy-MM-dd}/'] }),
  priority: z.enum(PRIORITIES).describe('The priority of each transfer.'),
  metadata: metadata.nullish().transform((value) => value ?? {}),
};

/** Null takes back what a flow has. */
const afterChange = afterRequest
  .unwrap()
  .transform((after) => after ?? null)
  .optional()
  .describe('What follows the copy of each file. Null means nothing.');

/** Body of POST /v1/flows. */
export const flowRequest = z
  .strictObject({
    ...fields,
    ready: ready
      .default(UNCHANGED_FOR)
      .describe('When a file may be taken. By default when it is unchanged for 30 s.'),
    trigger: trigger.default(null),
    priority: fields.priority.default('normal'),
    metadata: fields.metadata.describe('The metadata of each transfer. Null means none.'),
    after: afterRequest,
    enabled: z.boolean().default(true).describe('False to create the flow as paused.'),
    start: flowStart
      .default('now')
      .describe('`new_only` skips the files that are in the folder when the flow is created.'),
  })
  .meta({
    id: 'FlowRequest',
    examples: [
      {
        name: 'orders',
        source: { uri: 'sftp://partner/out/', pattern: '*.csv' },
        ready: { unchanged_for: '30s' },
        trigger: { every: '5m' },
        destination_uri: 's3://archive/{date:yyyy-MM-dd}/',
      },
    ],
  });
export type FlowRequest = z.output<typeof flowRequest>;

/** Body of PATCH /v1/flows/{id}. */
export const flowChanges = changes(
  z.strictObject({
    name: fields.name.optional(),
    source: source.optional(),
    ready: ready.optional(),
    trigger: trigger.optional(),
    destination_uri: fields.destination_uri.optional(),
    priority: fields.priority.optional(),
    metadata: metadata
      .nullable()
      .transform((value) => value ?? {})
      .optional()
      .describe('The metadata of each transfer. Null means none.'),
    after: afterChange,
  }),
).meta({ id: 'FlowChanges', examples: [{ trigger: { every: '1m' } }] });
export type FlowChanges = z.output<typeof flowChanges>;

/** Body of POST /v1/flows/{id}/runs. It may be missing. */
export const runRequest = z
  .strictObject({
    dry_run: z
      .boolean()
      .default(false)
      .describe('True to see what a run would take, and why not the rest. Nothing is taken.'),
  })
  .meta({ id: 'RunRequest', examples: [{ dry_run: true }] })
  .nullish()
  .transform((value) => value ?? { dry_run: false });

/** Query of GET /v1/flows. */
export const flowQuery = z.strictObject({
  status: flowStatus.optional().describe('Only this status.'),
  q: words
    .optional()
    .describe(
      'Words, separated by spaces. Each must be a part of the name, the source, the destination or ' +
        'the id. Letters may be upper or lower case.',
    ),
  ...pageQuery,
});

/** Query of the lists of runs and files. */
export const flowPageQuery = z.strictObject(pageQuery);
