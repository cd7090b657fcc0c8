import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createOnce, createTransfer, reserveTransfer } from '../../commands/create-transfer.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { cancelTransfer, loadTransfer } from '../../commands/transfers.ts';
import { type History, history, toHistoryItem } from '../../contract/events.ts';
import { toSearchPage } from '../../contract/pages.ts';
import * as answers from '../../contract/transfers/answers.ts';
import { transfersToCsv } from '../../contract/transfers/csv.ts';
import * as requests from '../../contract/transfers/requests.ts';
import { toCreated, toDetail, toListItem } from '../../contract/transfers/views.ts';
import { notFound } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { stateAsOf, stateOf } from '../../domain/transfers/history.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import { lastErrorAfter } from '../../processes/after/table.ts';
import { findWait, findWaits } from '../../processes/dispatch/waiting-for.ts';
import { currentTransfer } from '../../processes/live/current-transfer.ts';
import { orSayWhenItLeft, throwNotFound } from '../../projections/retention/removed-transfers.ts';
import { readHistory } from '../../projections/transfers/history.ts';
import { eachTransfer, listTransfers } from '../../projections/transfers/queries.ts';
import type { AccessRecorder } from '../access-log/recorder.ts';
import { whenAdmitted } from '../admission/admitted.ts';
import type { AuthenticationDeps } from '../admission/authenticate.ts';
import { prefersCsv, sendCsv } from '../answers/csv.ts';
import type { LimitOpen } from '../answers/open-answers.ts';
import { causeOf, clientOf } from '../auth/client.ts';
import type { WhileAllowed } from '../auth/while-allowed.ts';
import { type Answer, idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { untilReadable } from '../own-writes.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** How old the queue may be that a new transfer is compared with. */
const QUEUE_HOLDS_MS = 250;

export function transferRoutes(
  deps: RoutesDeps &
    AuthenticationDeps & {
      whileAllowed: WhileAllowed;
      limitExports: LimitOpen;
      access: AccessRecorder;
    },
): FastifyPluginAsyncZod {
  const { sql, whileAllowed, limitExports, access } = deps;

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/transfers',
      config: { scope: 'transfers:read', showsTransfers: true },
      schema: {
        operationId: 'listTransfers',
        summary: 'List transfers',
        // Not among the contents: generated clients would take each answer for text or a page.
        description:
          'With `Accept: text/csv`, the answer has all matches as CSV, and `limit` and `offset` ' +
          'have no effect.',
        tags: ['Transfers'],
        querystring: requests.listQuery,
        response: responses({ 200: ['A page of transfers', answers.transferList] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request, reply): Promise<answers.TransferList> {
        const { limit, offset, sort, ...filters } = request.query;
        const { accountId } = clientOf(request);
        const filter = requests.toFilter(filters);
        if (prefersCsv(request, reply)) {
          limitExports(request, reply);
          await access.exported(request, 'transfers', accountId);
          const pieces = transfersToCsv(eachTransfer(sql, accountId, filter, sort));
          return sendCsv(request, reply, 'transfers.csv', whileAllowed(request, pieces));
        }
        const found = await listTransfers(sql, accountId, filter, { limit, offset, sort });
        const waits = await findWaits(sql, found.transfers);
        const data = found.transfers.map((transfer) =>
          toListItem(transfer, waits.get(transfer.facts.transfer_id) ?? null),
        );
        return toSearchPage(data, { limit, offset }, found);
      },
    });

    app.route({
      method: 'POST',
      url: '/transfers',
      config: { scope: 'transfers:write', queue: true },
      schema: {
        operationId: 'createTransfer',
        summary: 'Create a transfer',
        tags: ['Transfers'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.transferRequest,
        response: responses({ 201: ['The transfer is created', answers.createdTransfer] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'credentials_in_uri',
          'endpoint_not_configured',
          'limit_reached',
        ]),
      },
      async handler(request, reply) {
        return whenAdmitted(deps, request, reply, (commands) =>
          idempotent({ ...deps, commands }, request, reply, {
            reserve: reserveTransfer,
            async run({ reserved, repeated, commands, cause }) {
              const { state, position } = await createOnce(commands, reserved, repeated, () =>
                createTransfer(
                  withQueue(commands, request, reply),
                  clientOf(request).accountId,
                  request.body,
                  cause,
                  reserved,
                ),
              );
              await untilReadable(commands, position);
              return created(state);
            },
            inOneAppend: {
              answerOf: (events) => created(stateOf(events)),
              shownIn: 'transfers',
            },
          }),
        );
      },
    });

    app.route({
      method: 'GET',
      url: '/transfers/:transfer_id',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'getTransfer',
        summary: 'Get a transfer, now or at an earlier point',
        tags: ['Transfers'],
        params: requests.transferParams,
        querystring: requests.detailQuery,
        response: responses({ 200: ['The transfer', answers.transferDetail] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.TransferDetail> {
        const { accountId } = clientOf(request);
        const { transfer_id } = request.params;
        const { as_of } = request.query;
        if (as_of !== undefined) {
          const past = stateAsOf(await readHistory(deps, accountId, transfer_id), as_of);
          access.transferRead(request, 'history', past.facts);
          return toDetail(past);
        }
        if (!isId('txr', transfer_id)) throw notFound('transfer');
        const found = await currentTransfer(deps, accountId, transfer_id);
        if (!found) return throwNotFound(sql, accountId, transfer_id);
        const { transfer, moving } = found;
        const [waiting, afterError] = await Promise.all([
          findWait(sql, transfer),
          lastErrorAfter(sql, transfer),
        ]);
        return toDetail(transfer, { moving, waiting, afterError });
      },
    });

    app.route({
      method: 'DELETE',
      url: '/transfers/:transfer_id',
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'cancelTransfer',
        summary: 'Cancel a pending or queued transfer',
        tags: ['Transfers'],
        params: requests.transferParams,
        querystring: noQuery,
        response: responses({ 200: ['The transfer is cancelled', answers.cancelledTransfer] }, [
          'unknown_field',
          'not_found',
          'transfer_not_cancellable',
        ]),
      },
      async handler(request): Promise<answers.CancelledTransfer> {
        const { transfer_id } = request.params;
        const { accountId } = clientOf(request);
        const known = await orSayWhenItLeft(sql, accountId, transfer_id, () =>
          loadTransfer(deps.commands, accountId, transfer_id),
        );
        const cause = causeOf(request);
        const { state, position } = await cancelTransfer(deps.commands, transfer_id, cause, known);
        await deps.commands.waitFor('transfers', position);
        if (state.status !== 'cancelled')
          throw new Error(`${transfer_id} was cancelled and is ${state.status}`);
        return { id: transfer_id, status: state.status, cancelled_at: state.cancelled_at };
      },
    });

    app.route({
      method: 'GET',
      url: '/transfers/:transfer_id/events',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'getTransferHistory',
        summary: 'Get the history of a transfer',
        tags: ['Transfers'],
        params: requests.transferParams,
        querystring: noQuery,
        response: responses({ 200: ['Every event of the transfer', history] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<History> {
        const { accountId: account_id } = clientOf(request);
        const { transfer_id } = request.params;
        const events = await readHistory(deps, account_id, transfer_id);
        access.transferRead(request, 'history', { transfer_id, account_id });
        return { data: events.map(toHistoryItem) };
      },
    });
  };
}

function created(transfer: Transfer): Answer<answers.CreatedTransfer> {
  const body = toCreated(transfer);
  return { status: 201, body, location: `/v1/transfers/${body.id}` };
}

/** Uses the queue that was read with the key, unless the body took long to arrive. */
function withQueue(
  commands: CommandDeps,
  { queue }: FastifyRequest,
  { elapsedTime }: FastifyReply,
): CommandDeps {
  if (queue === null || elapsedTime > QUEUE_HOLDS_MS) return commands;
  return { ...commands, queueEstimate: async (...args) => queue.estimate(...args) };
}
