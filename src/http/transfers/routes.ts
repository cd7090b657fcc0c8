import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import type { TransferRequest } from '../../commands/requests.ts';
import { cancelTransfer, createTransfer, type ReservedTransfer, reserveTransfer, streamOf } from '../../commands/transfers.ts';
import { isId } from '../../domain/ids.ts';
import { notFound, type Transfer } from '../../domain/transfer.ts';
import { upcast } from '../../domain/upcast.ts';
import { currentTransfer } from '../../projections/current-transfer.ts';
import { listTransfers } from '../../projections/transfer-queries.ts';
import { causeOf, clientOf } from '../auth.ts';
import { idempotencyHeaders, noQuery, responses, WITH_BODY, WITH_IDEMPOTENCY_KEY } from '../documentation.ts';
import { idempotent } from '../idempotency.ts';
import { toPagination } from '../pages.ts';
import { readHistory, stateAsOf } from './history.ts';
import * as schemas from './schemas.ts';
import { toCreated, toDetail, toHistoryItem, toListItem } from './views.ts';

export interface TransferRoutesDeps {
  sql: Sql;
  store: EventStore;
  locks: Locks;
  commands: CommandDeps;
}

export function transferRoutes(deps: TransferRoutesDeps): FastifyPluginAsyncZod {
  const { sql, store, commands } = deps;

  /** What a creation came to; of one that an earlier process began, what the log says of it. */
  async function create(
    accountId: string,
    body: TransferRequest,
    cause: Cause,
    reserved: ReservedTransfer,
    repeated: boolean,
  ): Promise<Transfer> {
    if (!repeated) {
      const { state, position } = await createTransfer(commands, accountId, body, cause, reserved);
      await commands.waitFor('transfers', position);
      return state;
    }
    const stream = streamOf(reserved.transferId);
    if ((await store.read(stream)).length === 0) await createTransfer(commands, accountId, body, cause, reserved);
    const events = await store.read(stream);
    await commands.waitFor('transfers', events[0]?.position ?? null);
    return stateAsOf(events.map(upcast), { revision: 0 });
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/transfers',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'listTransfers',
        summary: 'List transfers',
        tags: ['Transfers'],
        querystring: schemas.listQuery,
        response: responses({ 200: ['A page of transfers', schemas.transferList] }, ['invalid_parameter', 'unknown_field']),
      },
      async handler(request): Promise<schemas.TransferList> {
        const { status, from_date, to_date, destination, limit, offset } = request.query;
        const filter = { status, from: from_date, to: to_date, destination };
        const { transfers, total } = await listTransfers(sql, clientOf(request).accountId, filter, { limit, offset });
        return { data: transfers.map(toListItem), pagination: toPagination({ limit, offset }, transfers.length, total) };
      },
    });

    app.route({
      method: 'POST',
      url: '/transfers',
      config: { scope: 'transfers:write' },
      schema: {
        operationId: 'createTransfer',
        summary: 'Create a transfer',
        tags: ['Transfers'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: schemas.transferBody,
        response: responses({ 201: ['The transfer is created', schemas.createdTransfer] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'credentials_in_uri',
          'endpoint_not_configured',
          'limit_reached',
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        return idempotent(deps, request, reply, {
          reserve: reserveTransfer,
          async run(reserved, repeated) {
            const body = toCreated(await create(accountId, request.body, causeOf(request), reserved, repeated));
            return { status: 201, body, location: `/v1/transfers/${body.id}` };
          },
        });
      },
    });

    app.route({
      method: 'GET',
      url: '/transfers/:transfer_id',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'getTransfer',
        summary: 'Get a transfer, now or as it was',
        tags: ['Transfers'],
        params: schemas.transferParams,
        querystring: schemas.detailQuery,
        response: responses({ 200: ['The transfer', schemas.transferDetail] }, ['invalid_parameter', 'unknown_field', 'not_found']),
      },
      async handler(request): Promise<schemas.TransferDetail> {
        const { accountId } = clientOf(request);
        const { transfer_id } = request.params;
        const { as_of } = request.query;
        if (as_of !== undefined) return toDetail(stateAsOf(await readHistory(store, accountId, transfer_id), as_of), null);
        const found = isId('txr', transfer_id) ? await currentTransfer(deps, accountId, transfer_id) : null;
        if (!found) throw notFound();
        return toDetail(found.transfer, found.moving);
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
        params: schemas.transferParams,
        querystring: noQuery,
        response: responses({ 200: ['The transfer is cancelled', schemas.cancelledTransfer] }, [
          'unknown_field',
          'not_found',
          'transfer_not_cancellable',
        ]),
      },
      async handler(request): Promise<schemas.CancelledTransfer> {
        const { transfer_id } = request.params;
        await readHistory(store, clientOf(request).accountId, transfer_id);
        const { state, position } = await cancelTransfer(commands, transfer_id, causeOf(request));
        await commands.waitFor('transfers', position);
        if (state.status !== 'cancelled') throw new Error(`${transfer_id} was cancelled and is ${state.status}`);
        return { id: transfer_id, status: state.status, cancelled_at: state.cancelled_at };
      },
    });

    app.route({
      method: 'GET',
      url: '/transfers/:transfer_id/events',
      config: { scope: 'transfers:read' },
      schema: {
        operationId: 'getTransferHistory',
        summary: 'Read the history of a transfer',
        tags: ['Transfers'],
        params: schemas.transferParams,
        querystring: noQuery,
        response: responses({ 200: ['Every event of the transfer', schemas.history] }, ['unknown_field', 'not_found']),
      },
      async handler(request): Promise<schemas.History> {
        const events = await readHistory(store, clientOf(request).accountId, request.params.transfer_id);
        return { data: events.map(toHistoryItem) };
      },
    });
  };
}
