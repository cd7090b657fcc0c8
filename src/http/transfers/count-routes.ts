import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import * as answers from '../../contract/transfers/answers.ts';
import { summaryQuery } from '../../contract/transfers/requests.ts';
import {
  countTransfersByHour,
  type Failures,
  summarizeTransfers,
} from '../../projections/transfers/summary.ts';
import { clientOf } from '../auth/client.ts';
import { responses } from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** The routes that count an account's transfers. */
export function transferCountRoutes({ sql }: Pick<RoutesDeps, 'sql'>): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/transfers/summary',
      config: { scope: 'transfers:read', showsTransfers: true },
      schema: {
        operationId: 'summarizeTransfers',
        summary: 'Count transfers by status, error and endpoint',
        tags: ['Transfers'],
        querystring: summaryQuery,
        response: responses({ 200: ['The counts', answers.transferSummary] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<answers.TransferSummary> {
        const { from_date: from, to_date: to } = request.query;
        const { accountId } = clientOf(request);
        const { byStatus, failures, byEndpoint, retried } = await summarizeTransfers(
          sql,
          accountId,
          { from, to },
          answers.COUNTED_FAILURES,
        );
        const total = Object.values(byStatus).reduce((sum, transfers) => sum + transfers, 0);
        return {
          total,
          by_status: byStatus,
          failures: failures.map(({ code, ...counted }) => ({ code, ...toFailures(counted) })),
          failures_by_endpoint: byEndpoint.map(({ endpointId, name, ...counted }) => ({
            endpoint_id: endpointId,
            name,
            ...toFailures(counted),
          })),
          retried,
        };
      },
    });

    app.route({
      method: 'GET',
      url: '/transfers/series',
      config: { scope: 'transfers:read', showsTransfers: true },
      schema: {
        operationId: 'countTransfersByHour',
        summary: 'Count transfers by hour and status',
        description:
          'A transfer counts in the hour of its creation, with its status now. Of an hour at the ' +
          'beginning or the end, only the transfers in the range count.',
        tags: ['Transfers'],
        querystring: summaryQuery,
        response: responses({ 200: ['The hours', answers.transferSeries] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<answers.TransferSeries> {
        const { from_date: from, to_date: to } = request.query;
        const { accountId } = clientOf(request);
        const hours = await countTransfersByHour(
          sql,
          accountId,
          { from, to },
          answers.SERIES_HOURS,
        );
        return { data: hours.map(({ at, byStatus }) => ({ at, by_status: byStatus })) };
      },
    });
  };
}

function toFailures({ transfers, firstFailedAt, lastFailedAt }: Failures) {
  return { transfers, first_failed_at: firstFailedAt, last_failed_at: lastFailedAt };
}
