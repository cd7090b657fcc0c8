import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { timestamp } from '../../commands/answers.ts';
import { PRIORITIES } from '../../domain/transfer.ts';
import { liveMovers, operationsSeries, queueDepth } from '../../processes/operations.ts';
import { noQuery, responses } from '../documentation.ts';
import { wholeNumber } from '../pages.ts';
import type { AdministrationDeps } from './deps.ts';

/** Spans of a graph at most. */
const SPANS = 288;

const speed = z.number().describe('Bits per second of all transfers together.');

const movers = z
  .strictObject({
    data: z
      .array(
        z.strictObject({
          id: z.string().describe('Host, process and a random part.'),
          slots: z.int().describe('Transfers that it moves at once, at most.'),
          active: z.int(),
          mean_duration_ms: z.number().nullable().describe('What a transfer took lately.'),
          started_at: timestamp,
          seen_at: timestamp,
        }),
      )
      .describe('Mover processes that live, oldest first.'),
    queue: z
      .array(
        z.strictObject({
          priority: z.enum(PRIORITIES),
          due: z.int().describe('Waiting for a mover.'),
          later: z.int().describe('Waiting for their next attempt.'),
          moving: z.int(),
          speed_bps: speed,
        }),
      )
      .describe('What waits and moves, of each priority.'),
  })
  .meta({ id: 'Movers' });

const series = z
  .strictObject({
    data: z
      .array(
        z.strictObject({
          at: timestamp.describe('When the span begins.'),
          seconds: z.int().describe('How long it is.'),
          created: z.int(),
          completed: z.int(),
          failed: z.int(),
          cancelled: z.int(),
          waiting: z.int().describe('Due and waiting for a mover, at most.'),
          moving: z.int().describe('In progress, at most.'),
          speed_bps: speed,
        }),
      )
      .describe('Oldest first; spans of which nothing was noted are left out.'),
  })
  .meta({ id: 'OperationsSeries' });

export function operationRoutes({ sql }: AdministrationDeps): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/movers',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listMovers',
        summary: 'See movers and their queue',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['Movers and queue, at this moment', movers] }, ['unknown_field']),
      },
      async handler(): Promise<z.output<typeof movers>> {
        const [data, queue] = await Promise.all([liveMovers(sql), queueDepth(sql)]);
        return { data, queue };
      },
    });

    app.route({
      method: 'GET',
      url: '/operations/series',
      config: { scope: 'admin' },
      schema: {
        operationId: 'getOperationsSeries',
        summary: 'See throughput and failures over time',
        description: 'In 288 spans at most. Noted each minute by a process with the role `monitor`, for eight days.',
        tags: ['Administration'],
        querystring: z.strictObject({ hours: wholeNumber(1, 168, 24).describe('How far back.') }),
        response: responses({ 200: ['The last hours, up to now', series] }, ['invalid_parameter', 'unknown_field']),
      },
      async handler(request): Promise<z.output<typeof series>> {
        const { hours } = request.query;
        return { data: await operationsSeries(sql, hours, Math.ceil((hours * 60) / SPANS)) };
      },
    });
  };
}
