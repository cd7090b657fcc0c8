import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { carryOutBulk, reserveBulk } from '../../commands/bulk.ts';
import { createOnce, reserveTransfer } from '../../commands/create-transfer.ts';
import { retryTransfer } from '../../commands/retry.ts';
import { loadTransfer, setPriority } from '../../commands/transfers.ts';
import * as answers from '../../contract/transfers/answers.ts';
import { BULK_LIMIT, bulkAnswer, bulkRequest } from '../../contract/transfers/bulk.ts';
import { toFilter, transferChange, transferParams } from '../../contract/transfers/requests.ts';
import { toCreated, toDetail } from '../../contract/transfers/views.ts';
import { findWait } from '../../processes/dispatch/waiting-for.ts';
import { orSayWhenItLeft } from '../../projections/retention/removed-transfers.ts';
import { findChangeable, retriesOf } from '../../projections/transfers/changeable.ts';
import { causeOf, clientOf } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { untilReadable } from '../own-writes.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** Routes that retry transfers, change their priority, and change many at once. */
export function transferChangeRoutes(deps: RoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/transfers/:transfer_id/retry',
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'retryTransfer',
        summary: 'Retry a failed or cancelled transfer',
        description:
          'Creates a transfer with everything that the old one asked for: also its options, and ' +
          '`after`, which may delete or move the source. Its `retry_of` is the old transfer, ' +
          'which stays as it is.',
        tags: ['Transfers'],
        params: transferParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        response: responses({ 201: ['The new transfer is created', answers.retriedTransfer] }, [
          'unknown_field',
          ...WITH_IDEMPOTENCY_KEY,
          'endpoint_not_configured',
          'not_found',
          'transfer_not_retryable',
          'limit_reached',
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        const { transfer_id } = request.params;
        return idempotent(deps, request, reply, {
          reserve: reserveTransfer,
          async run({ reserved, repeated, commands, cause }) {
            const { state, position } = await createOnce(commands, reserved, repeated, () =>
              orSayWhenItLeft(sql, accountId, transfer_id, () =>
                retryTransfer(commands, accountId, transfer_id, cause, reserved),
              ),
            );
            await untilReadable(commands, position);
            const body: answers.RetriedTransfer = { ...toCreated(state), retry_of: transfer_id };
            return { status: 201, body, location: `/v1/transfers/${body.id}` };
          },
        });
      },
    });

    app.route({
      method: 'PATCH',
      url: '/transfers/:transfer_id',
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'changeTransfer',
        summary: 'Change the priority of a pending or queued transfer',
        tags: ['Transfers'],
        params: transferParams,
        querystring: noQuery,
        body: transferChange,
        response: responses({ 200: ['The transfer has the priority', answers.transferDetail] }, [
          ...WITH_BODY,
          'not_found',
          'priority_not_changeable',
        ]),
      },
      async handler(request): Promise<answers.TransferDetail> {
        const { transfer_id } = request.params;
        const { accountId } = clientOf(request);
        await orSayWhenItLeft(sql, accountId, transfer_id, () =>
          loadTransfer(deps.commands, accountId, transfer_id),
        );
        const { state, position } = await setPriority(
          deps.commands,
          transfer_id,
          request.body.priority,
          causeOf(request),
        );
        await deps.commands.waitFor('transfers', position);
        return toDetail(state, { moving: null, waiting: await findWait(sql, state) });
      },
    });

    app.route({
      method: 'POST',
      url: '/transfers/bulk',
      config: { scope: 'transfers:write', showsTransfers: true },
      schema: {
        operationId: 'changeTransfers',
        summary: 'Retry or cancel many transfers, or change their priority',
        description:
          'Each transfer is decided by itself, so some can be refused while others are done. ' +
          'Send an `Idempotency-Key`: after a 5xx or a lost connection, the same request ' +
          'completes the call and retries no transfer twice.',
        tags: ['Transfers'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: bulkRequest,
        response: responses({ 200: ['What was done, and what was refused', bulkAnswer] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        const { body } = request;
        return idempotent(deps, request, reply, {
          reserve: () =>
            reserveBulk(body, (filter) =>
              findChangeable(sql, accountId, toFilter(filter), body, BULK_LIMIT),
            ),
          async run({ reserved, repeated, commands, cause }) {
            const call = { accountId, request: body, reserved, repeated, cause };
            const { answer, position } = await carryOutBulk(commands, call, (transferIds) =>
              retriesOf(sql, transferIds),
            );
            await commands.waitFor('transfers', position);
            return { status: 200, body: answer };
          },
        });
      },
    });
  };
}
