import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createBatch, createFolderBatch, reserveBatch } from '../../commands/create-batch.ts';
import * as answers from '../../contract/batches/answers.ts';
import * as requests from '../../contract/batches/requests.ts';
import { toBatch } from '../../contract/batches/views.ts';
import { toPagination } from '../../contract/pages.ts';
import { notFound } from '../../domain/errors.ts';
import { cancelWithTransfers, retryBatch } from '../../processes/batches/changes.ts';
import {
  type CountedBatch,
  findBatch,
  listBatches,
  listRejected,
} from '../../projections/batches/queries.ts';
import { causeOf, clientOf, countFurther } from '../auth/authenticate.ts';
import type { RequestAdmission } from '../auth/request-admission.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** Items that count as one request of the rate limit. */
const ITEMS_PER_REQUEST = 100;

export interface BatchRoutesDeps extends RoutesDeps {
  requestAdmission: RequestAdmission;
}

export function batchRoutes(deps: BatchRoutesDeps): FastifyPluginAsyncZod {
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
      method: 'POST',
      url: '/batches',
      bodyLimit: requests.BATCH_BODY_LIMIT,
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'createBatch',
        summary: 'Create a batch of transfers',
        description:
          'Of `items`: an invalid one rejects the whole request, and each 100 count as one request ' +
          'of the rate limit. Of the files of a folder: the batch is `creating` until the folder is ' +
          'listed and each file has its transfer.',
        tags: ['Batches'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.batchRequest,
        response: responses({ 201: ['The batch is created', answers.createdBatch] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'credentials_in_uri',
          'endpoint_not_configured',
          'limit_reached',
        ]),
      },
      async preHandler(request, reply) {
        const { items = [] } = request.body;
        const counted = Math.ceil(items.length / ITEMS_PER_REQUEST) - 1;
        await countFurther(deps.requestAdmission, request, reply, Math.max(0, counted));
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        return idempotent(deps, request, reply, {
          reserve: reserveBatch,
          async run({ reserved, repeated, commands, cause }) {
            if (request.body.items === undefined) {
              const { state, position } = await createFolderBatch(
                commands,
                accountId,
                request.body,
                cause,
                reserved,
                repeated,
              );
              await commands.waitFor('batches', position);
              const body: answers.CreatedBatch = toBatch(state);
              return { status: 201, body, location: `/v1/batches/${body.id}` };
            }
            const { batch, transferIds, position } = await createBatch(
              commands,
              accountId,
              request.body,
              cause,
              reserved,
              repeated,
            );
            await Promise.all([
              commands.waitFor('batches', batch.position),
              commands.waitFor('transfers', position),
            ]);
            const body: answers.CreatedBatch = {
              ...toBatch(batch.state),
              transfer_ids: transferIds,
            };
            return { status: 201, body, location: `/v1/batches/${body.id}` };
          },
        });
      },
    });

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
        return {
          data: batches.map(({ counts, ...batch }) => toBatch(batch, counts)),
          pagination: toPagination(page, batches.length, total),
        };
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
        const { counts, ...batch } = await find(request);
        return toBatch(batch, counts);
      },
    });

    app.route({
      method: 'DELETE',
      url: '/batches/:batch_id',
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'cancelBatch',
        summary: 'Cancel a batch',
        description:
          'Cancels the transfers that wait. Those in progress continue, and `not_cancelled` names ' +
          'them. A transfer that is queued again for a retry is cancelled then.',
        tags: ['Batches'],
        params: requests.batchParams,
        querystring: noQuery,
        response: responses({ 200: ['The batch is cancelled', answers.cancelledBatch] }, [
          'unknown_field',
          'not_found',
          'batch_not_cancellable',
        ]),
      },
      async handler(request): Promise<answers.CancelledBatch> {
        const { accountId } = clientOf(request);
        return cancelWithTransfers(deps, accountId, request.params.batch_id, causeOf(request));
      },
    });

    app.route({
      method: 'POST',
      url: '/batches/:batch_id/retry',
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'retryBatch',
        summary: 'Retry the failed transfers of a batch',
        description:
          'Creates a batch with a new transfer for each failed one that was not retried yet. Its ' +
          '`retry_of` is the old batch, which stays as it is.',
        tags: ['Batches'],
        params: requests.batchParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        response: responses({ 201: ['The new batch is created', answers.batch] }, [
          'unknown_field',
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
          'batch_not_retryable',
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        const { batch_id } = request.params;
        return idempotent(deps, request, reply, {
          reserve: reserveBatch,
          async run({ reserved, repeated, commands, cause }) {
            const { state } = await retryBatch(
              { sql, commands },
              accountId,
              batch_id,
              cause,
              reserved,
              repeated,
            );
            const body = toBatch(state);
            return { status: 201, body, location: `/v1/batches/${body.id}` };
          },
        });
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
        return { data: items, pagination: toPagination(request.query, items.length, total) };
      },
    });
  };
}
