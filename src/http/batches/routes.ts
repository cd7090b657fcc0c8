import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import * as answers from '../../contract/batches/answers.ts';
import * as requests from '../../contract/batches/requests.ts';
import { toPage } from '../../contract/pages.ts';
import { notFound } from '../../domain/errors.ts';
import { showBatch, showBatches } from '../../processes/batches/show-batches.ts';
import {
  type CountedBatch,
  findBatch,
  listBatches,
  listRejected,
} from '../../projections/batches/queries.ts';
import { clientOf } from '../auth/client.ts';
import { noQuery, responses } from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** Routes that show batches. */
export function batchRoutes(deps: RoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  /** Throws `not_found`, also for a batch of another account. */
  async function find(
    request: FastifyRequest<{ Params: { batch_id: string } }>,
  ): Promise<CountedBatch> {
    const found = await findBatch(deps, clientOf(request).accountId, request.params.batch_id);
    if (!found) throw notFound('batch');
    return found;
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/batches',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'listBatches',
        summary: 'List batches',
        tags: ['Batches'],
        querystring: requests.batchQuery,
        response: responses({ 200: ['A page of batches', answers.batchList] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<answers.BatchList> {
        const { status, ...page } = request.query;
        const { accountId } = clientOf(request);
        const { batches, total } = await listBatches(sql, accountId, status, page);
        return toPage(await showBatches(sql, batches), page, total);
      },
    });

    app.route({
      method: 'GET',
      url: '/batches/:batch_id',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'getBatch',
        summary: 'Get a batch',
        tags: ['Batches'],
        params: requests.batchParams,
        querystring: noQuery,
        response: responses({ 200: ['The batch', answers.batch] }, ['unknown_field', 'not_found']),
      },
      async handler(request): Promise<answers.BatchAnswer> {
        return showBatch(sql, await find(request));
      },
    });

    app.route({
      method: 'GET',
      url: '/batches/:batch_id/rejected',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'listRejectedItems',
        summary: 'List the items of a batch that cannot become transfers',
        tags: ['Batches'],
        params: requests.batchParams,
        querystring: requests.rejectedQuery,
        response: responses({ 200: ['A page of items', answers.rejectedItems] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.RejectedItems> {
        const { batch_id } = await find(request);
        const { items, total } = await listRejected(sql, batch_id, request.query);
        return toPage(items, request.query, total);
      },
    });
  };
}
