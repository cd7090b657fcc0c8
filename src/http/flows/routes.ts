import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import {
  createFlow,
  loadFlow,
  reachedRevision,
  reserveFlow,
  switchFlow,
  updateFlow,
} from '../../commands/flows.ts';
import * as answers from '../../contract/flows/answers.ts';
import * as requests from '../../contract/flows/requests.ts';
import { toPagination } from '../../contract/pages.ts';
import type { Flow } from '../../domain/flows/flow.ts';
import { showFlow, showFlows } from '../../processes/flows/show-flows.ts';
import { listFlows } from '../../projections/flows/queries.ts';
import { causeOf, clientOf } from '../auth/authenticate.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

const TAGS = ['Flows'];

const INVALID = [...WITH_BODY, 'credentials_in_uri' as const, 'endpoint_not_configured' as const];

export function flowRoutes(deps: RoutesDeps): FastifyPluginAsyncZod {
  const { sql, commands } = deps;

  const show = (flow: Flow) => showFlow(sql, flow);

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/flows',
      config: { scope: 'flows:write' },
      schema: {
        operationId: 'createFlow',
        summary: 'Create a flow',
        description:
          'A flow copies the files of a folder as they come: each version of a file once. Its runs ' +
          'are batches.',
        tags: TAGS,
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.flowRequest,
        response: responses({ 201: ['The flow is created', answers.flow] }, [
          ...INVALID,
          ...WITH_IDEMPOTENCY_KEY,
          'limit_reached',
        ]),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        return idempotent(deps, request, reply, {
          reserve: reserveFlow,
          async run({ reserved, repeated, commands: through, cause }) {
            const { state, position } = await createFlow(
              through,
              accountId,
              request.body,
              cause,
              reserved,
              repeated,
            );
            await through.waitFor('flows', position);
            const body = await show(state);
            return { status: 201, body, location: `/v1/flows/${body.id}` };
          },
        });
      },
    });

    app.route({
      method: 'GET',
      url: '/flows',
      config: { scope: 'flows:read' },
      schema: {
        operationId: 'listFlows',
        summary: 'List flows',
        tags: TAGS,
        querystring: requests.flowQuery,
        response: responses({ 200: ['A page of flows', answers.flowList] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<answers.FlowList> {
        const { status, q, ...page } = request.query;
        const { accountId } = clientOf(request);
        const { flows, total } = await listFlows(sql, accountId, { status, q }, page);
        return {
          data: await showFlows(sql, flows),
          pagination: toPagination(page, flows.length, total),
        };
      },
    });

    app.route({
      method: 'GET',
      url: '/flows/:flow_id',
      config: { scope: 'flows:read' },
      schema: {
        operationId: 'getFlow',
        summary: 'Get a flow',
        tags: TAGS,
        params: requests.flowParams,
        querystring: noQuery,
        response: responses({ 200: ['The flow', answers.flow] }, ['unknown_field', 'not_found']),
      },
      async handler(request): Promise<answers.FlowAnswer> {
        const { accountId } = clientOf(request);
        return show((await loadFlow(commands, accountId, request.params.flow_id)).state);
      },
    });

    app.route({
      method: 'PATCH',
      url: '/flows/:flow_id',
      config: { scope: 'flows:write' },
      schema: {
        operationId: 'updateFlow',
        summary: 'Change a flow',
        description: 'A run that is open continues as it began.',
        tags: TAGS,
        params: requests.flowParams,
        querystring: noQuery,
        body: requests.flowChanges,
        response: responses({ 200: ['The changed flow', answers.flow] }, [...INVALID, 'not_found']),
      },
      async handler(request): Promise<answers.FlowAnswer> {
        const { state, position } = await updateFlow(
          commands,
          clientOf(request).accountId,
          request.params.flow_id,
          request.body,
          causeOf(request),
        );
        await commands.waitFor('flows', position);
        return show(state);
      },
    });

    for (const [action, summary, description, done] of [
      [
        'pause',
        'Pause a flow',
        'It starts no run by itself. A run that is open continues.',
        'paused',
      ],
      [
        'resume',
        'Resume a flow',
        'With `every`, it runs at once. Times of `cron` that it missed are not made up.',
        'resumed',
      ],
    ] as const)
      app.route({
        method: 'POST',
        url: `/flows/:flow_id/${action}`,
        config: { scope: 'flows:write' },
        schema: {
          operationId: `${action}Flow`,
          summary,
          description,
          tags: TAGS,
          params: requests.flowParams,
          headers: idempotencyHeaders,
          querystring: noQuery,
          response: responses({ 200: [`The ${done} flow`, answers.flow] }, [
            'unknown_field',
            ...WITH_IDEMPOTENCY_KEY,
            'not_found',
          ]),
        },
        async handler(request, reply) {
          const { accountId } = clientOf(request);
          const { flow_id } = request.params;
          return idempotent(deps, request, reply, {
            reserve: async () => ({ reached: await reachedRevision(commands, flow_id) }),
            async run({ reserved: { reached }, commands: through, cause }) {
              const { state, position } = await switchFlow(
                through,
                accountId,
                flow_id,
                action,
                cause,
                reached,
              );
              await through.waitFor('flows', position);
              return { status: 200, body: await show(state) };
            },
          });
        },
      });

    app.route({
      method: 'DELETE',
      url: '/flows/:flow_id',
      config: { scope: 'flows:write' },
      schema: {
        operationId: 'deleteFlow',
        summary: 'Delete a flow',
        description: 'A run that is open continues. To stop it, cancel its batch.',
        tags: TAGS,
        params: requests.flowParams,
        querystring: noQuery,
        response: responses({ 200: ['The flow is deleted', answers.removedFlow] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.RemovedFlow> {
        const { state, position } = await switchFlow(
          commands,
          clientOf(request).accountId,
          request.params.flow_id,
          'remove',
          causeOf(request),
        );
        await commands.waitFor('flows', position);
        return { id: state.flow_id, status: 'removed', removed_at: state.updated_at };
      },
    });
  };
}
