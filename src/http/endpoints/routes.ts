import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pauseEndpoint, removeEndpoint, resumeEndpoint } from '../../commands/endpoints.ts';
import { createEndpoint, updateEndpoint } from '../../commands/save-endpoint.ts';
import * as answers from '../../contract/endpoints/answers.ts';
import * as requests from '../../contract/endpoints/requests.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import { newId } from '../../domain/ids.ts';
import { endpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { listEndpoints } from '../../projections/catalog/queries.ts';
import { accountLimit, causeOf } from '../auth/authenticate.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  nothing,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';
import { mayUse, shownEndpoint, usableEndpoint } from './answers.ts';

/** Routes for the configuration of endpoints. None of them connects to a server. */
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
      async handler(request): Promise<answers.Endpoint> {
        const state = await usableEndpoint(deps, request);
        return shownEndpoint(deps, request, { state, revision: state.revision });
      },
    });

    app.route({
      method: 'PUT',
      url: '/endpoints/:endpoint_id',
      config: { scope: 'admin' },
      schema: {
        operationId: 'updateEndpoint',
        summary: 'Change an endpoint',
        description:
          'The whole definition, under the same name. Without credentials, the endpoint ' +
          'keeps its own, but only for the same server. Without host keys, or with a ' +
          '`host_key_sha256` that is one of the accepted ones, it keeps the accepted host keys ' +
          'for the same host and port.',
        tags: ['Administration'],
        params: requests.endpointParams,
        querystring: noQuery,
        body: requests.endpointUpdate,
        response: responses({ 200: ['The endpoint is changed', answers.endpoint] }, [
          ...WITH_BODY,
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.Endpoint> {
        const { endpoint_id } = await usableEndpoint(deps, request);
        return shownEndpoint(
          deps,
          request,
          await updateEndpoint(deps.commands, endpoint_id, request.body, causeOf(request)),
        );
      },
    });

    app.route({
      method: 'DELETE',
      url: '/endpoints/:endpoint_id',
      config: { scope: 'admin' },
      schema: {
        operationId: 'removeEndpoint',
        summary: 'Remove an endpoint that no open transfer uses',
        tags: ['Administration'],
        params: requests.endpointParams,
        querystring: noQuery,
        response: responses({ 204: ['The endpoint is removed', nothing] }, [
          'unknown_field',
          'not_found',
          'endpoint_in_use',
        ]),
      },
      async handler(request, reply) {
        const { endpoint_id } = await usableEndpoint(deps, request);
        await removeEndpoint(deps.commands, endpoint_id, causeOf(request));
        return reply.code(204).send();
      },
    });

    const switches = [
      ['pause', 'pauseEndpoint', 'Pause an endpoint: no new transfers start on it', pauseEndpoint],
      [
        'resume',
        'resumeEndpoint',
        'Resume an endpoint: transfers start on it again',
        resumeEndpoint,
      ],
    ] as const;
    for (const [verb, operationId, summary, command] of switches) {
      app.route({
        method: 'POST',
        url: `/endpoints/:endpoint_id/${verb}`,
        config: { scope: 'operate' },
        schema: {
          operationId,
          summary,
          tags: ['Administration'],
          params: requests.endpointParams,
          headers: idempotencyHeaders,
          querystring: noQuery,
          response: responses({ 200: ['The endpoint as it is now', answers.endpoint] }, [
            'unknown_field',
            ...WITH_IDEMPOTENCY_KEY,
            'not_found',
          ]),
        },
        async handler(request, reply) {
          const { endpoint_id } = await usableEndpoint(deps, request);
          return idempotent(deps, request, reply, {
            reserve: () => ({}),
            run: async ({ commands, cause }) => ({
              status: 200,
              body: await shownEndpoint(deps, request, await command(commands, endpoint_id, cause)),
            }),
          });
        },
      });
    }
  };
}
