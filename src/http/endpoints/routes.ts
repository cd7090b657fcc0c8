import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createEndpoint } from '../../commands/save-endpoint.ts';
import * as answers from '../../contract/endpoints/answers.ts';
import * as requests from '../../contract/endpoints/requests.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import { newId } from '../../domain/ids.ts';
import { endpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { listEndpoints } from '../../projections/catalog/queries.ts';
import { accountLimit } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';
import { mayUse, sendEndpoint, shownEndpoint, usableEndpoint } from './answers.ts';

/** Routes that configure and show endpoints. None of them connects to a server. */
export function endpointRoutes(deps: OperatorRoutesDeps): FastifyPluginAsyncZod {
  const { sql } = deps;

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/endpoints',
      config: { scope: 'observe' },
      schema: {
        operationId: 'listEndpoints',
        summary: 'List endpoints',
        tags: ['Administration'],
        querystring: requests.endpointQuery,
        response: responses(
          { 200: ['Every endpoint that the client may use, by name', answers.endpointList] },
          ['invalid_parameter', 'unknown_field'],
        ),
      },
      async handler(request): Promise<answers.EndpointList> {
        const [endpoints, health] = await Promise.all([
          listEndpoints(sql, request.query.q),
          endpointConnectivity(sql),
        ]);
        const account = accountLimit(request);
        const usable = endpoints.filter((endpoint) => mayUse(endpoint, account));
        return {
          data: usable.map((endpoint) =>
            toEndpoint(endpoint, health.get(endpoint.endpoint_id), account),
          ),
        };
      },
    });

    app.route({
      method: 'POST',
      url: '/endpoints',
      config: { scope: 'admin' },
      schema: {
        operationId: 'createEndpoint',
        summary: 'Configure an endpoint',
        tags: ['Administration'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.endpointRequest,
        response: responses({ 201: ['The endpoint is configured', answers.endpoint] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          secretBody: true,
          reserve: () => ({ endpointId: newId('end') }),
          async run({ reserved, commands, cause }) {
            const { endpointId } = reserved;
            const created = await createEndpoint(commands, request.body, cause, endpointId);
            const location = `/v1/endpoints/${created.endpointId}`;
            return { status: 201, body: await shownEndpoint(deps, request, created), location };
          },
        }),
    });

    app.route({
      method: 'GET',
      url: '/endpoints/:endpoint_id',
      config: { scope: 'observe' },
      schema: {
        operationId: 'getEndpoint',
        summary: 'Get an endpoint',
        tags: ['Administration'],
        params: requests.endpointParams,
        querystring: noQuery,
        response: responses({ 200: ['The endpoint', answers.endpoint] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request, reply) {
        const state = await usableEndpoint(deps, request);
        return sendEndpoint(deps, request, reply, { state, revision: state.revision });
      },
    });
  };
}
