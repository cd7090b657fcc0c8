import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { reachedRevision, switchFlow, updateFlow } from '../../commands/flows.ts';
import * as answers from '../../contract/flows/answers.ts';
import * as requests from '../../contract/flows/requests.ts';
import { showFlow } from '../../processes/flows/show-flows.ts';
import { causeOf, clientOf } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';
import { INVALID_FLOW } from './routes.ts';

const TAGS = ['Flows'];

/** Routes that change, pause, resume and remove a flow. */
export function flowChangeRoutes(deps: RoutesDeps): FastifyPluginAsyncZod {
  const { sql, commands } = deps;

  return async (app) => {
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
        response: responses({ 200: ['The changed flow', answers.flow] }, [
          ...INVALID_FLOW,
          'not_found',
        ]),
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
        return showFlow(sql, state);
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
        'With `every`, it runs at once. It does not make up for times of `cron` that it missed.',
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
              return { status: 200, body: await showFlow(sql, state) };
            },
          });
        },
      });

    app.route({
      method: 'DELETE',
      url: '/flows/:flow_id',
      config: { scope: 'flows:write' },
      schema: {
        operationId: 'removeFlow',
        summary: 'Remove a flow',
        description: 'A run that is open continues. To stop it, cancel its batch.',
        tags: TAGS,
        params: requests.flowParams,
        querystring: noQuery,
        response: responses({ 200: ['The flow is removed', answers.removedFlow] }, [
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
