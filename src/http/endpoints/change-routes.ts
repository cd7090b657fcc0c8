import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pauseEndpoint, removeEndpoint, resumeEndpoint } from '../../commands/endpoints.ts';
import { updateEndpoint } from '../../commands/save-endpoint.ts';
import * as answers from '../../contract/endpoints/answers.ts';
import * as requests from '../../contract/endpoints/requests.ts';
import { causeOf } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  ifMatchHeaders,
  noQuery,
  nothing,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import { readIfMatch, requireNoneMatch } from '../requests/if-match.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';
import { sendEndpoint, shownEndpoint, usableEndpoint } from './answers.ts';

/** Routes that change, pause, resume and remove an endpoint. None of them connects to a server. */
export function endpointChangeRoutes(deps: OperatorRoutesDeps): FastifyPluginAsyncZod {
  return async (app) => {
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
        headers: ifMatchHeaders,
        querystring: noQuery,
        body: requests.endpointUpdate,
        response: responses({ 200: ['The endpoint is changed', answers.endpoint] }, [
          ...WITH_BODY,
          'invalid_parameter',
          'not_found',
          'precondition_failed',
        ]),
      },
      async handler(request, reply) {
        const onlyAt = readIfMatch(request);
        const { endpoint_id, revision } = await usableEndpoint(deps, request);
        requireNoneMatch(request, revision);
        const cause = causeOf(request);
        const updated = await updateEndpoint(
          deps.commands,
          endpoint_id,
          request.body,
          cause,
          onlyAt,
        );
        return sendEndpoint(deps, request, reply, updated);
      },
    });

    app.route({
      method: 'DELETE',
      url: '/endpoints/:endpoint_id',
      config: { scope: 'admin' },
      schema: {
        operationId: 'removeEndpoint',
        summary: 'Remove an endpoint that no open transfer and no active flow uses',
        tags: ['Administration'],
        params: requests.endpointParams,
        headers: ifMatchHeaders,
        querystring: noQuery,
        response: responses({ 204: ['The endpoint is removed', nothing] }, [
          'unknown_field',
          'invalid_parameter',
          'not_found',
          'endpoint_in_use',
          'precondition_failed',
        ]),
      },
      async handler(request, reply) {
        const onlyAt = readIfMatch(request);
        const { endpoint_id, revision } = await usableEndpoint(deps, request);
        requireNoneMatch(request, revision);
        await removeEndpoint(deps.commands, endpoint_id, causeOf(request), onlyAt);
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
            byRights: true,
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
