import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createFlow, loadFlow, reserveFlow } from '../../commands/flows.ts';
import * as answers from '../../contract/flows/answers.ts';
import * as requests from '../../contract/flows/requests.ts';
import { toPage } from '../../contract/pages.ts';
import { showFlow, showFlows } from '../../processes/flows/show-flows.ts';
import { listFlows } from '../../projections/flows/queries.ts';
import { clientOf } from '../auth/client.ts';
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

/** Problems of a request that says where a flow copies from and to. */
export const INVALID_FLOW = [
  ...WITH_BODY,
  'credentials_in_uri' as const,
  'endpoint_not_configured' as const,
];

/** Routes that create and show flows. */
export function flowRoutes(deps: RoutesDeps): FastifyPluginAsyncZod {
  const { sql, commands } = deps;

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
          ...INVALID_FLOW,
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
            const body = await showFlow(sql, state);
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
        return toPage(await showFlows(sql, flows), page, total);
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
        const { state } = await loadFlow(commands, accountId, request.params.flow_id);
        return showFlow(sql, state);
      },
    });
  };
}
