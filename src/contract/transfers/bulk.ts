import { z } from 'zod';
import { CHANGES, type Change } from '../../domain/transfers/decider.ts';
import { PRIORITIES } from '../../domain/transfers/transfer.ts';
import { problemCode } from '../problems.ts';
import { storableTransferId, transferFilters, transferId } from './requests.ts';

/** Transfers that one call changes at most. */
export const BULK_LIMIT = 1_000;

const action = z.enum(Object.keys(CHANGES) as [Change]);

/** Body of POST /v1/transfers/bulk. */
export const bulkRequest = z
  .strictObject({
    action: action.describe('What to do with each transfer.'),
    ids: z
      .array(storableTransferId)
      .min(1)
      .max(BULK_LIMIT)
      .optional()
      .describe('The transfers. An id that is given twice counts once.'),
    filter: transferFilters
      .optional()
      .describe(
        'In place of `ids`: the filters of the list. The call takes the transfers that match and ' +
          `that the action can change, oldest first, at most ${BULK_LIMIT}. \`retry\` leaves out ` +
          'transfers that were retried already, `set_priority` those that have the priority.',
      ),
    continue_from: storableTransferId
      .optional()
      .describe(
        'With `filter` only: the `continue_from` of the previous answer. The call takes the ' +
          'transfers after that one.',
      ),
    priority: z.enum(PRIORITIES).optional().describe('The new priority, for `set_priority` only.'),
  })
  .superRefine(({ action, ids, filter, continue_from, priority }, context) => {
    const issue = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if ((ids === undefined) === (filter === undefined))
      issue('ids', 'must be given, or else filter: exactly one of the two');
    if (continue_from !== undefined && filter === undefined)
      issue('continue_from', 'must be given with filter only');
    if ((action === 'set_priority') !== (priority !== undefined))
      issue('priority', 'must be given with the action set_priority, and with no other');
  })
  .meta({
    id: 'BulkRequest',
    examples: [
      { action: 'retry', filter: { status: 'failed', from_date: '2026-01-31' } },
      {
        action: 'set_priority',
        priority: 'high',
        ids: ['txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H', 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7J'],
      },
    ],
  });
export type BulkRequest = z.output<typeof bulkRequest>;

export const bulkAnswer = z
  .strictObject({
    action,
    matched: z.int().describe('Transfers of this call: `done` and `refused` together.'),
    done: z.int().describe('Transfers that are now as requested, also if they were before.'),
    refused: z.int(),
    has_more: z
      .boolean()
      .describe(
        'True if more transfers match the filter: repeat the call with `continue_from`, under a ' +
          'new key.',
      ),
    continue_from: transferId
      .nullable()
      .describe('The last transfer of this call if `has_more` is true. Else null.'),
    retries: z
      .array(z.strictObject({ id: transferId, retry_of: transferId }).meta({ id: 'BulkRetry' }))
      .describe('The new transfers of the action `retry`.'),
    refusals: z
      .array(
        z
          .strictObject({
            id: transferId,
            code: problemCode,
            detail: z
              .string()
              .describe('Why this transfer was refused.')
              .meta({ examples: ['There is no such transfer'] }),
          })
          .meta({ id: 'BulkRefusal' }),
      )
      .describe('Each refused transfer, with the problem that a request for it alone would get.'),
  })
  .meta({ id: 'BulkAnswer' });
export type BulkAnswer = z.output<typeof bulkAnswer>;
