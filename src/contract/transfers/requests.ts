import { z } from 'zod';
import { DomainError } from '../../domain/errors.ts';
import { text } from '../../domain/text.ts';
import type { AsOf } from '../../domain/transfers/history.ts';
import {
  PRIORITIES,
  SORT_ORDERS,
  type SortOrder,
  TRANSFER_STATUSES,
} from '../../domain/transfers/transfer.ts';
import { fileName, parseRequestedUri, SCHEMES, type TransferUri } from '../../domain/uri.ts';
import { idOf } from '../ids.ts';
import { hintOn, instantLimit, isOrdered, notOrdered, parseTime } from '../instants.ts';
import { pageQuery } from '../pages.ts';
import { words } from '../search-words.ts';
import { afterRequest } from './after.ts';
import { transferErrorCode } from './errors.ts';
import { transferOptions } from './options.ts';

const TRANSFER_ID = { examples: ['txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] };
const BATCH_ID = { examples: ['bat_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] };
export const transferId = z.string().meta(TRANSFER_ID);
export const batchId = z.string().meta(BATCH_ID);
/** An id that a query compares with those in a table. */
export const storableTransferId = text.meta(TRANSFER_ID);
export const flowId = z.string().meta({ examples: ['flo_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });
export const transferStatus = z.enum(TRANSFER_STATUSES);

export const transferParams = z.object({ transfer_id: transferId });

export const METADATA_KEYS = 10;
const METADATA_CHARACTERS = 256;
/** Keys that have a meaning in JavaScript objects. */
const RESERVED_KEYS = ['__proto__', 'constructor', 'prototype'];

/** Limits a string in characters, as JSON Schema does. JavaScript counts many of them as two. */
function atMost(characters: number, schema: z.ZodString): z.ZodString {
  return schema
    .refine(
      (value) => [...value].length <= characters,
      `must be at most ${characters} characters long`,
    )
    .meta({ maxLength: characters });
}

/** Returns the schema of a URI. `check` returns what else is wrong with it; null if nothing. */
export function uriOf(field: string, check: (uri: TransferUri) => string | null = () => null) {
  return text.superRefine((value, context) => {
    try {
      const message = check(parseRequestedUri(value, field));
      if (message !== null) context.addIssue({ code: 'custom', message });
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      context.addIssue({ code: 'custom', message: error.message, params: { code: error.code } });
    }
  });
}

/** The URI of a file to read. */
export const sourceUri = uriOf('source_uri', (uri) =>
  fileName(uri) === '' ? 'must name a file: it ends in a slash or names no path' : null,
);
/** The URI of a file to write, or of its folder. */
export const destinationUri = uriOf('destination_uri');

/** Returns what is wrong with the keys of metadata, as text. Null for valid ones. */
function objectionToKeys(keys: string[]): string | null {
  if (keys.length > METADATA_KEYS) return `must have at most ${METADATA_KEYS} keys`;
  return keys.some((key) => RESERVED_KEYS.includes(key))
    ? `must not use the keys ${RESERVED_KEYS.join(', ')}`
    : null;
}

// Keys are checked before the record is parsed: zod's record silently drops `__proto__`, and a body
// of a batch can have 50,000 keys.
export const metadata = z.preprocess(
  (value, context) => {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    const message = isObject ? objectionToKeys(Object.keys(value)) : null;
    if (message !== null) context.addIssue({ code: 'custom', message });
    return value;
  },
  z
    .record(atMost(METADATA_CHARACTERS, text.min(1)), atMost(METADATA_CHARACTERS, text))
    .meta({ maxProperties: METADATA_KEYS }),
);

/** Body of POST /v1/transfers. */
export const transferRequest = z
  .strictObject({
    source_uri: sourceUri.describe(`Where the file is read: ${SCHEMES}.`),
    destination_uri: destinationUri.describe(
      'Where the file is written, on a configured endpoint; the file name is appended if it ' +
        'ends in a slash.',
    ),
    priority: z.enum(PRIORITIES).default('normal'),
    notify_on_complete: z.boolean().default(false),
    metadata: metadata
      .nullish()
      .transform((value) => value ?? {})
      .describe(
        `Your own key-value pairs: at most ${METADATA_KEYS} keys. Keys and values have at most ` +
          `${METADATA_CHARACTERS} characters. The keys ${RESERVED_KEYS.join(', ')} are rejected. ` +
          'Null means none.',
      ),
    after: afterRequest,
    ...transferOptions,
  })
  .meta({
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
export type TransferRequest = z.output<typeof transferRequest>;

/** A search shows no more than its first matches. */
const MATCHES_SHOWN = 10_000;

const createdBetween = {
  from_date: instantLimit('start')
    .optional()
    .describe(
      'Created at or after this: a date (`YYYY-MM-DD`, UTC) or an RFC 3339 time with an offset.',
    ),
  to_date: instantLimit('end')
    .optional()
    .describe(
      'Created at or before this: a date (`YYYY-MM-DD`, UTC, the whole day) or an RFC 3339 ' +
        'time with an offset.',
    ),
};

const filters = {
  q: words
    .optional()
    .describe(
      'Words, separated by spaces. Each must be a part of the file name, source, destination, id, ' +
        'or of a key or value of the metadata. Letters may be upper or lower case. A new transfer ' +
        'is found a moment later. If no word has three characters or more, only ' +
        'the first transfers are searched.',
    ),
  status: transferStatus
    .optional()
    .describe(
      'Only this status. A waiting transfer is `queued`, also between attempts. `pending` ' +
        'lasts for moments.',
    ),
  error_code: transferErrorCode
    .optional()
    .describe('Only transfers that have failed with this error.'),
  error_endpoint_id: idOf('end', 'an endpoint')
    .optional()
    .describe(
      'Only transfers that have failed at this endpoint: at their source, if that could not be ' +
        'read, changed, or is not the expected file; else at their destination.',
    ),
  ...createdBetween,
  destination: text.min(1).optional().describe('Start of the destination URI, compared literally.'),
  retry_of: idOf('txr', 'a transfer').optional().describe('Only retries of this transfer.'),
  batch_id: idOf('bat', 'a batch').optional().describe('Only transfers of this batch.'),
};

const RETRIED =
  'Only transfers that were retried (`true`), or only those that were not (`false`): with ' +
  '`status=failed`, the failed transfers that need no more attention, or those that may.';

/** The filters of GET /v1/transfers, in a body. */
export const transferFilters = z
  .strictObject({ ...filters, retried: z.boolean().optional().describe(RETRIED) })
  .refine(isOrdered, notOrdered)
  .meta({ id: 'TransferFilters', examples: [{ status: 'failed', from_date: '2026-01-31' }] });
type TransferFilters = z.output<typeof transferFilters>;

/** The name of each order in generated clients. */
const ORDER_NAMES: Record<SortOrder, string> = {
  '-created_at': 'NewestFirst',
  created_at: 'OldestFirst',
};
const SORT_NAMES = SORT_ORDERS.map((order) => ORDER_NAMES[order]);

/** Query of GET /v1/transfers. */
export const listQuery = z
  .strictObject({
    ...filters,
    retried: z
      .enum(['true', 'false'])
      .meta({ type: 'boolean', enum: undefined })
      .optional()
      .transform((value) => (value === undefined ? undefined : value === 'true'))
      .describe(RETRIED),
    sort: z
      .enum(SORT_ORDERS)
      .meta({
        id: 'TransferSort',
        // For NSwag, and for other generators.
        'x-enumNames': SORT_NAMES,
        'x-enum-varnames': SORT_NAMES,
      })
      .default('-created_at')
      .describe('Newest first (`-created_at`) or oldest first (`created_at`).'),
    ...pageQuery,
  })
  .refine(isOrdered, notOrdered)
  .refine(({ q, limit, offset }) => q === undefined || offset + limit <= MATCHES_SHOWN, {
    path: ['offset'],
    message: `with q, offset and limit together must not exceed ${MATCHES_SHOWN}`,
  });

/** Returns the filters as the read model takes them. */
export function toFilter(filters: TransferFilters) {
  const { q, status, error_code, error_endpoint_id, from_date, to_date, destination } = filters;
  const { retry_of, batch_id, retried } = filters;
  return {
    q,
    status,
    errorCode: error_code,
    errorEndpointId: error_endpoint_id,
    from: from_date,
    to: to_date,
    destination,
    retryOf: retry_of,
    batchId: batch_id,
    retried,
  };
}

/** Query of GET /v1/transfers/summary and /v1/transfers/series. */
export const summaryQuery = z.strictObject(createdBetween).refine(isOrdered, notOrdered);

/** Body of PATCH /v1/transfers/{id}. */
export const transferChange = z
  .strictObject({ priority: z.enum(PRIORITIES) })
  .meta({ id: 'TransferChange', examples: [{ priority: 'high' }] });

/** Query of GET /v1/transfers/{id}. */
export const detailQuery = z.strictObject({
  as_of: z
    .string()
    .transform((value, context): AsOf => {
      if (/^(?:0|[1-9]\d{0,8})$/.test(value)) return { revision: Number(value) };
      const time = parseTime(value);
      if (time !== null) return { time };
      context.addIssue({
        code: 'custom',
        message: `must be a revision or an RFC 3339 time with an offset${hintOn(value)}`,
      });
      return z.NEVER;
    })
    .optional()
    .describe(
      'Returns the transfer at an RFC 3339 time or at a revision of its history, not as it is now. ' +
        'A revision that it has not reached is an error.',
    ),
});

/** Query of GET /v1/transfers/live. */
export const liveQuery = z.strictObject({ transfer_id: z.string().optional() });
