import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createBatch, createFolderBatch, reserveBatch } from '../../commands/create-batch.ts';
import * as answers from '../../contract/batches/answers.ts';
import * as requests from '../../contract/batches/requests.ts';
import { toBatch } from '../../contract/batches/views.ts';
import { BATCH_BODY_LIMIT } from '../../contract/body-limits.ts';
import { cancelWithTransfers, retryBatch } from '../../processes/batches/changes.ts';
import { countFurther } from '../admission/authenticate.ts';
import type { RequestAdmission } from '../admission/request-admission.ts';
import { causeOf, clientOf } from '../auth/client.ts';
import { type Answer, type Attempt, idempotent } from '../idempotency/idempotency.ts';
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

/** Routes by which clients create batches, cancel them and retry what failed. */
export function batchChangeRoutes(deps: BatchRoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/batches',
      bodyLimit: BATCH_BODY_LIMIT,
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'createBatch',
        summary: 'Create a batch of transfers',
        description:
          'With `items`, an invalid item rejects the whole request, and each 100 items count as one ' +
          'request of the rate limit. With a folder, the batch is `creating` until the folder is ' +
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
      async handler(request, reply) {
        const { items = [] } = request.body;
        const counted = Math.ceil(items.length / ITEMS_PER_REQUEST) - 1;
        await countFurther(deps.requestAdmission, request, reply, Math.max(0, counted));
        return idempotent(deps, request, reply, {
          reserve: reserveBatch,
          run: (attempt) => create(clientOf(request).accountId, request.body, attempt),
        });
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
  };
}

type Creation = Attempt<ReturnType<typeof reserveBatch>>;

async function create(
  accountId: string,
  body: requests.BatchRequest,
  attempt: Creation,
): Promise<Answer<answers.CreatedBatch>> {
  const batch = await (body.items ? createOfItems : createOfFolder)(accountId, body, attempt);
  return { status: 201, body: batch, location: `/v1/batches/${batch.id}` };
}

async function createOfItems(
  accountId: string,
  body: requests.BatchRequest,
  { commands, cause, reserved, repeated }: Creation,
): Promise<answers.CreatedBatch> {
  const created = await createBatch(commands, accountId, body, cause, reserved, repeated);
  await Promise.all([
    commands.waitFor('batches', created.batch.position),
    commands.waitFor('transfers', created.position),
  ]);
  return { ...toBatch(created.batch.state), transfer_ids: created.transferIds };
}

async function createOfFolder(
  accountId: string,
  body: requests.BatchRequest,
  { commands, cause, reserved, repeated }: Creation,
): Promise<answers.CreatedBatch> {
  const created = await createFolderBatch(commands, accountId, body, cause, reserved, repeated);
  await commands.waitFor('batches', created.position);
  return toBatch(created.state);
}
