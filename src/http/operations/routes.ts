import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import * as schemas from '../../contract/operations.ts';
import { queueDepth } from '../../processes/dispatch/job-table/figures.ts';
import { liveMovers } from '../../processes/dispatch/live-movers.ts';
import { operationsSeries } from '../../processes/housekeeping/samples.ts';
import { noQuery, responses } from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';

/** Maximum number of spans in a series. */
const SPANS = 288;

export function operationRoutes({ sql }: OperatorRoutesDeps): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/movers',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listMovers',
        summary: 'Get the movers and their queue',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['The current movers and queue', schemas.movers] }, [
          'unknown_field',
        ]),
      },
      async handler(): Promise<schemas.Movers> {
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
        summary: 'Get throughput and failures over time',
        description:
          'Has at most 288 spans. A process with the role `monitor` records a sample each ' +
          'minute, and keeps it for eight days.',
        tags: ['Administration'],
        querystring: schemas.seriesQuery,
        response: responses({ 200: ['The last hours, up to now', schemas.operationsSeries] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<schemas.OperationsSeries> {
        const { hours } = request.query;
        return { data: await operationsSeries(sql, hours, Math.ceil((hours * 60) / SPANS)) };
      },
    });
  };
}
