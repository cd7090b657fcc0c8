import { z } from 'zod';
import { text } from '../../domain/text.ts';
import type { After, SourceAction } from '../../domain/transfers/after.ts';
import { TRANSFER_ERRORS } from '../../domain/transfers/errors.ts';
import { timestamp } from '../instants.ts';
import { uri } from '../uri.ts';
import { inWords } from '../validation-messages.ts';

const MARKER = /^[A-Za-z0-9._-]{1,32}$/;
const MAX_FOLDER_BYTES = 1_024;

/** Returns the fault of a `move_to` folder, as text. Null for a valid one. */
function objectionToFolder(folder: string): string | null {
  const segments = folder.replace(/\/$/, '').split('/');
  if (folder.startsWith('/'))
    return 'must not start with a slash: it is a folder below that of the source';
  if (folder.includes('\\')) return 'must not contain a backslash';
  if (segments.some((segment) => segment === '..' || segment === '.'))
    return 'must not contain . or .. as a segment';
  if (segments.includes('')) return 'must not contain an empty segment (//)';
  return Buffer.byteLength(folder) > MAX_FOLDER_BYTES
    ? `must be at most ${MAX_FOLDER_BYTES} bytes long`
    : null;
}

const moveTo = text
  .min(1)
  .superRefine((value, context) => {
    const message = objectionToFolder(value);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .transform((folder) => (folder.endsWith('/') ? folder : `${folder}/`));

const moveSource = z.strictObject({ move_to: moveTo });
const action = z.union([z.enum(['keep', 'delete']), moveSource]);

// Generators of clients understand no union of a text and an object, so the document has no type.
const sourceAction = z
  .unknown()
  .optional()
  .transform((value, context): SourceAction => {
    const parsed = action.safeParse(value ?? 'keep');
    if (parsed.success) return parsed.data;
    const isObject = typeof value === 'object' && !Array.isArray(value);
    const named = isObject ? moveSource.safeParse(value, { error: inWords }).error : undefined;
    const message = 'must be "keep", "delete" or an object such as {"move_to": "processed/"}';
    for (const issue of named?.issues ?? [{ code: 'custom' as const, path: [], message }])
      context.addIssue({ ...issue });
    return z.NEVER;
  })
  .meta({ examples: ['delete', { move_to: 'processed/' }] });

/** `after` of a transfer or batch. One that asks for nothing counts as none. */
export const afterRequest = z
  .strictObject({
    source: sourceAction.describe(
      'What becomes of the source, if it is still the file that was copied: `keep` (the default), ' +
        '`delete`, or an object with `move_to`, a folder below that of the source. The folder is ' +
        'not percent-encoded, and is created if it is missing.',
    ),
    destination_marker: z
      .string()
      .regex(MARKER, 'must be 1 to 32 letters, digits, dots, hyphens or underscores, such as .done')
      .nullish()
      .describe('Writes an empty file beside the destination: its name, with this at the end.')
      .meta({ examples: ['.done'] }),
  })
  .meta({ id: 'AfterRequest' })
  .nullable()
  .transform((value): After | undefined => {
    if (!value) return undefined;
    const { source, destination_marker = null } = value;
    return source === 'keep' && destination_marker === null
      ? undefined
      : { source, destination_marker };
  })
  .optional()
  .describe(
    'What to do once the transfer has completed: first the marker, then the source. Null means ' +
      'nothing.',
  );

export const AFTER_REASON_CODES = [
  ...(Object.keys(TRANSFER_ERRORS) as (keyof typeof TRANSFER_ERRORS)[]),
  'no_source_version',
  'marker_failed',
] as const;

export const afterReason = z
  .strictObject({
    code: z.enum(AFTER_REASON_CODES).describe('Accept codes that you do not know.'),
    message: z.string().meta({ examples: ['The source is not the file that was copied'] }),
  })
  .meta({ id: 'AfterReason' });

const AFTER_STATES = ['waiting', 'pending', 'done', 'not_done'] as const;

/** What was asked for, in answers. */
export const afterRequested = z
  .strictObject({
    source: (z.any() as z.ZodType<SourceAction>)
      .describe('`keep`, `delete`, or an object with `move_to`.')
      .meta({ examples: ['delete', { move_to: 'processed/' }] }),
    destination_marker: z
      .string()
      .nullable()
      .meta({ examples: ['.done'] }),
  })
  .meta({ id: 'After' });
export type AfterRequested = z.output<typeof afterRequested>;

/** `after` of a transfer, in answers. */
export const afterAnswer = z
  .strictObject({
    ...afterRequested.shape,
    state: z
      .enum(AFTER_STATES)
      .meta({ id: 'AfterState' })
      .describe(
        '`waiting` until the transfer completes, then `pending`. At the end `done`, or ' +
          '`not_done` for the `reason`.',
      ),
    marker: uri('s3://archive/in/report.csv.done')
      .nullable()
      .describe('URI of the marker. Null until it is written.'),
    moved_to: uri('sftp://files.example.com/out/processed/report.csv')
      .nullable()
      .describe('URI of the source in its new folder. Null unless it was moved.'),
    reason: afterReason
      .nullable()
      .describe(
        'Why the marker is missing or the source was kept. While it is `pending`, why the last try ' +
          'failed. Null otherwise.',
      ),
    ended_at: timestamp.nullable().describe('Time of the last step. Null until then.'),
  })
  .meta({ id: 'AfterTransfer' });
export type AfterAnswer = z.output<typeof afterAnswer>;
