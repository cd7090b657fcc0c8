import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { abortTransfer } from '../../commands/transfers.ts';
import { liveTransfers, transferDetail } from '../../contract/transfers/answers.ts';
import { liveQuery, transferParams } from '../../contract/transfers/requests.ts';
import { toDetail, toLive } from '../../contract/transfers/views.ts';
import { notFound } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { stateOf } from '../../domain/transfers/history.ts';
import { findWaits } from '../../processes/dispatch/waiting-for.ts';
import type { FollowedTransfer } from '../../processes/live/listener.ts';
import { createLiveTransfers } from '../../processes/live/live-transfers.ts';
import { orSayWhenItLeft } from '../../projections/retention/removed-transfers.ts';
import { readAnyHistory, readHistory } from '../../projections/transfers/history.ts';
import { type EventStreamDeps, type ServerEvent, sendEvents } from '../answers/event-stream.ts';
import { accountLimit } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';

export function operatorTransferRoutes(
  deps: OperatorRoutesDeps & EventStreamDeps,
): FastifyPluginAsyncZod {
  const live = createLiveTransfers({
    ...deps,
    findWaits: (transfers) => findWaits(deps.sql, transfers),
  });

  async function* follow(
    transferId: string | undefined,
    account: string | null,
    quietMs: number,
    signal: AbortSignal,
  ): AsyncGenerator<ServerEvent> {
    for await (const update of live.follow({ transferId, account, quietMs, signal })) {
      if (update?.type === 'snapshot' && transferId !== undefined && update.transfers.length === 0)
        update.transfers.push(await unshown(account, transferId));
      if (update === null) yield null;
      else {
        const transfers = update.transfers.map(({ transfer, ...live }) => toLive(transfer, live));
        yield { event: update.type, data: { transfers, more_ended: update.moreEnded } };
      }
    }
  }

  /** Reads a transfer that the read model does not show yet. Throws `not_found`. */
  async function unshown(account: string | null, transferId: string): Promise<FollowedTransfer> {
    const events = await (account === null
      ? readAnyHistory(deps, transferId)
      : readHistory(deps, account, transferId));
    return { transfer: stateOf(events), moving: null, waiting: null };
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/transfers/live',
      config: { scope: 'observe', showsTransfers: true },
      schema: {
        operationId: 'followTransfers',
        summary: 'Follow transfers as they move',
        description:
          'Server-sent events; with the scope `admin`, across all accounts. `snapshot` has the ' +
          'moving transfers (at most 500) and the newest open ones (at most 200). Then `changes` follow, at most ' +
          'one a second, also of transfers that began and ended within that second. If many end ' +
          'at once, `more_ended` counts those that the event leaves out. With `transfer_id`, the ' +
          'stream has only that transfer, open or not.',
        tags: ['Administration'],
        querystring: liveQuery,
        response: responses(
          {
            200: [
              'Events, until you disconnect or the service stops',
              liveTransfers,
              'text/event-stream',
            ],
          },
          ['invalid_parameter', 'unknown_field', 'not_found'],
        ),
      },
      async handler(request, reply) {
        const { transfer_id } = request.query;
        if (transfer_id !== undefined && !isId('txr', transfer_id)) throw notFound('transfer');
        return sendEvents(deps, request, reply, (signal, quietMs) =>
          follow(transfer_id, accountLimit(request), quietMs, signal),
        );
      },
    });

    app.route({
      method: 'POST',
      url: '/transfers/:transfer_id/abort',
      config: { scope: 'operate' },
      schema: {
        operationId: 'abortTransfer',
        summary: 'Abort a transfer that is in progress',
        description:
          'With the scope `admin`, for every account. The transfer fails with `aborted_by_operator`, and its ' +
          'leftovers at the destination are removed.',
        tags: ['Administration'],
        params: transferParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        response: responses({ 200: ['The transfer has failed', transferDetail] }, [
          'unknown_field',
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
          'transfer_not_cancellable',
        ]),
      },
      async handler(request, reply) {
        const { transfer_id } = request.params;
        if (!isId('txr', transfer_id)) throw notFound('transfer');
        const account = accountLimit(request);
        if (account !== null) await readHistory(deps, account, transfer_id);
        return idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run({ commands, cause }) {
            const { state, position } = await orSayWhenItLeft(deps.sql, account, transfer_id, () =>
              abortTransfer(commands, transfer_id, cause),
            );
            await commands.waitFor('transfers', position);
            return { status: 200, body: toDetail(state) };
          },
        });
      },
    });
  };
}
