import { z } from 'zod';
import { PRIORITIES } from '../domain/transfers/transfer.ts';
import { timestamp } from './instants.ts';
import { wholeNumber } from './pages.ts';

const speed = z.number().describe('Bits per second of all transfers together.');

export const movers = z
  .strictObject({
    data: z
      .array(
        z
          .strictObject({
            id: z
              .string()
              .describe('Host, process and a random part.')
              .meta({ examples: ['waybill-1:4711:f3a9'] }),
            slots: z.int().describe('Maximum number of concurrent transfers.'),
            active: z.int(),
            mean_duration_ms: z.number().nullable().describe('Mean duration of recent transfers.'),
            started_at: timestamp,
            seen_at: timestamp,
          })
          .meta({ id: 'Mover' }),
      )
      .describe('Live mover processes, oldest first.'),
    queue: z
      .array(
        z
          .strictObject({
            priority: z.enum(PRIORITIES),
            due: z.int().describe('Waiting for a mover.'),
            later: z.int().describe('Waiting for their next attempt.'),
            moving: z.int(),
            speed_bps: speed,
          })
          .meta({ id: 'QueueLength' }),
      )
      .describe('Waiting and moving transfers, by priority.'),
  })
  .meta({ id: 'Movers' });

export type Movers = z.output<typeof movers>;

/** Query of GET /v1/operations/series. */
export const seriesQuery = z.strictObject({
  hours: wholeNumber(1, 168, 24).describe('How many hours back.'),
});

export const operationsSeries = z
  .strictObject({
    data: z
      .array(
        z
          .strictObject({
            at: timestamp.describe('Start of the span.'),
            seconds: z.int().describe('Length of the span.'),
            created: z.int(),
            completed: z.int(),
            failed: z.int(),
            cancelled: z.int(),
            waiting: z
              .int()
              .describe('Maximum number of transfers that were due and waited for a mover.'),
            moving: z.int().describe('Maximum number of transfers in progress.'),
            moved_bytes: z.int().describe('Bytes that destinations acknowledged.'),
            speed_bps: speed,
          })
          .meta({ id: 'OperationsSpan' }),
      )
      .describe('Oldest first. Spans without samples are omitted.'),
  })
  .meta({ id: 'OperationsSeries' });
export type OperationsSeries = z.output<typeof operationsSeries>;
