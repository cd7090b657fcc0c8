import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { abortTransfer } from '../../commands/transfers.ts';
import { isId } from '../../domain/ids.ts';
import { notFound } from '../../domain/transfer.ts';
import { createLiveTransfers } from '../../processes/live-transfers.ts';
import type { FoundTransfer } from '../../projections/transfer-queries.ts';
import { causeOf } from '../auth.ts';
import { idempotencyHeaders, noQuery, responses, WITH_IDEMPOTENCY_KEY } from '../documentation.ts';
import { idempotent } from '../idempotency.ts';
import { transferDetail, transferParams } from '../transfers/schemas.ts';
import { toDetail } from '../transfers/views.ts';
import type { AdministrationDeps } from './deps.ts';
import { type EventStreamDeps, type ServerEvent, sendEvents } from './event-stream.ts';

const liveTransfer = z
  .strictObject({
    ...transferDetail.shape,
    account: z.string(),
    seconds_left: z.int().nullable().describe('At the speed so far; null where that is not known.'),
  })
  .meta({ id: 'LiveTransfer' });

const liveTransfers = z
  .strictObject({ transfers: z.array(liveTransfer) })
  .describe('The data of an event. `snapshot`: what is open; `changes`: what of it has changed since, ends included.')
  .meta({ id: 'LiveTransfers' });

export function transferAdministration(deps: AdministrationDeps & EventStreamDeps): FastifyPluginAsyncZod {
  const { commands } = deps;
  const live = createLiveTransfers(deps);

  async function* follow(transferId: string | undefined, quietMs: number, signal: AbortSignal): AsyncGenerator<ServerEvent> {
    for await (const update of live.follow({ transferId, quietMs, signal })) {
      if (update?.type === 'snapshot' && transferId !== undefined && update.transfers.length === 0) throw notFound();
      yield update && { event: update.type, data: { transfers: update.transfers.map(toLive) } };
    }
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/transfers/live',
      config: { scope: 'admin' },
      schema: {
        operationId: 'followTransfers',
        summary: 'Follow transfers as they move',
        description:
          'Server-sent events, of all accounts: `snapshot` with what moves (500 at most) and the newest that are open (200), then `changes`, at most one a second. Of one transfer alone, open or not, where it is named.',
        tags: ['Administration'],
        querystring: z.strictObject({ transfer_id: z.string().optional() }),
        response: responses({ 200: ['Events, until you leave or the service stops', liveTransfers, 'text/event-stream'] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request, reply) {
        const { transfer_id } = request.query;
        if (transfer_id !== undefined && !isId('txr', transfer_id)) throw notFound();
        return sendEvents(deps, request, reply, (signal, quietMs) => follow(transfer_id, quietMs, signal));
      },
    });

    app.route({
      method: 'POST',
      url: '/transfers/:transfer_id/abort',
      config: { scope: 'admin' },
      schema: {
        operationId: 'abortTransfer',
        summary: 'End a transfer that is in progress',
        description: 'Of any account. It fails with `aborted_by_operator`; what it left at the destination is removed.',
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
        if (!isId('txr', transfer_id)) throw notFound();
        return idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run() {
            const { state, position } = await abortTransfer(commands, transfer_id, causeOf(request));
            await commands.waitFor('transfers', position);
            return { status: 200, body: toDetail(state, null) };
          },
        });
      },
    });
  };
}

function toLive({ transfer, moving }: FoundTransfer): z.output<typeof liveTransfer> {
  const detail = toDetail(transfer, moving);
  const { size_bytes, transferred_bytes, speed_bps } = detail;
  const known = moving && size_bytes !== null && speed_bps !== null && speed_bps > 0;
  const seconds_left = known ? Math.ceil(((size_bytes - transferred_bytes) * 8) / speed_bps) : null;
  return { ...detail, account: transfer.facts.account_id, seconds_left };
}
