import { Readable } from 'node:stream';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createEndpoint, pauseEndpoint, removeEndpoint, resumeEndpoint, updateEndpoint } from '../../commands/endpoints.ts';
import type { Handled } from '../../commands/handle.ts';
import type { Endpoint } from '../../domain/endpoint.ts';
import { DomainError } from '../../domain/errors.ts';
import { isId, newId } from '../../domain/ids.ts';
import { type Access, acceptShownHostKey, accessOf, accessTo, listFolder } from '../../processes/endpoint-access.ts';
import { endpointHealth } from '../../processes/reachability.ts';
import { type ConfiguredEndpoint, findEndpoint, listEndpoints } from '../../projections/catalog-queries.ts';
import { causeOf } from '../auth.ts';
import { idempotencyHeaders, noQuery, nothing, responses, WITH_BODY, WITH_IDEMPOTENCY_KEY } from '../documentation.ts';
import { idempotent } from '../idempotency.ts';
import type { AdministrationDeps } from './deps.ts';
import * as schemas from './endpoint-schemas.ts';
import { testLines } from './endpoint-test.ts';
import { toEndpoint } from './endpoint-views.ts';

const LISTED_AT_MOST = 10_000;
const REMOTE_LIMIT_MS = 30_000;

export function endpointRoutes(deps: AdministrationDeps): FastifyPluginAsyncZod {
  const { sql, vault, commands } = deps;

  async function find(id: string): Promise<ConfiguredEndpoint> {
    const found = isId('end', id) ? await findEndpoint(sql, id) : null;
    if (!found) throw new DomainError('not_found', 'There is no such endpoint');
    return found;
  }

  async function get(id: string): Promise<schemas.Endpoint> {
    const state = await find(id);
    return shown({ state, revision: state.revision });
  }

  async function shown({ state, revision }: Pick<Handled<Endpoint>, 'state' | 'revision'>): Promise<schemas.Endpoint> {
    const health = await endpointHealth(sql);
    return toEndpoint({ ...state, revision }, health.get(state.endpoint_id));
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/endpoints',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listEndpoints',
        summary: 'List endpoints',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['Every endpoint of the installation', schemas.endpointList] }, ['unknown_field']),
      },
      async handler(): Promise<schemas.EndpointList> {
        const [endpoints, health] = await Promise.all([listEndpoints(sql), endpointHealth(sql)]);
        return { data: endpoints.map((endpoint) => toEndpoint(endpoint, health.get(endpoint.endpoint_id))) };
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
        body: schemas.endpointBody,
        response: responses({ 201: ['The endpoint is configured', schemas.endpoint] }, [...WITH_BODY, ...WITH_IDEMPOTENCY_KEY]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          secretBody: true,
          reserve: () => ({ endpointId: newId('end') }),
          async run({ endpointId }) {
            const body = await shown(await createEndpoint(commands, request.body, causeOf(request), endpointId));
            return { status: 201, body, location: `/v1/endpoints/${endpointId}` };
          },
        }),
    });

    app.route({
      method: 'POST',
      url: '/endpoints/test',
      config: { scope: 'admin' },
      schema: {
        operationId: 'testNewEndpoint',
        summary: 'Test an endpoint before it is saved',
        description: 'The steps as they happen, one JSON document a line. A probe file is written, read back and removed.',
        tags: ['Administration'],
        querystring: noQuery,
        body: schemas.endpointBody,
        response: responses({ 200: ['The steps, then the result', schemas.testLine, 'application/x-ndjson'] }, WITH_BODY),
      },
      handler: async (request, reply) => reply.type('application/x-ndjson; charset=utf-8').send(test(accessOf(request.body))),
    });

    app.route({
      method: 'GET',
      url: '/endpoints/:endpoint_id',
      config: { scope: 'admin' },
      schema: {
        operationId: 'getEndpoint',
        summary: 'Get an endpoint',
        tags: ['Administration'],
        params: schemas.endpointParams,
        querystring: noQuery,
        response: responses({ 200: ['The endpoint', schemas.endpoint] }, ['unknown_field', 'not_found']),
      },
      handler: async (request): Promise<schemas.Endpoint> => get(request.params.endpoint_id),
    });

    app.route({
      method: 'PUT',
      url: '/endpoints/:endpoint_id',
      config: { scope: 'admin' },
      schema: {
        operationId: 'updateEndpoint',
        summary: 'Change an endpoint',
        description:
          'The whole definition, under the same name. Without credentials it keeps those it has, as long as they go to the same server. A host key that was accepted stays with its host and port.',
        tags: ['Administration'],
        params: schemas.endpointParams,
        querystring: noQuery,
        body: schemas.endpointUpdateBody,
        response: responses({ 200: ['The endpoint is changed', schemas.endpoint] }, [...WITH_BODY, 'not_found']),
      },
      async handler(request): Promise<schemas.Endpoint> {
        return shown(await updateEndpoint(commands, request.params.endpoint_id, request.body, causeOf(request)));
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
        params: schemas.endpointParams,
        querystring: noQuery,
        response: responses({ 204: ['The endpoint is removed', nothing] }, ['unknown_field', 'not_found', 'endpoint_in_use']),
      },
      async handler(request, reply) {
        const { endpoint_id } = await find(request.params.endpoint_id);
        await removeEndpoint(commands, endpoint_id, causeOf(request));
        return reply.code(204).send();
      },
    });

    app.route({
      method: 'POST',
      url: '/endpoints/:endpoint_id/test',
      config: { scope: 'admin' },
      schema: {
        operationId: 'testEndpoint',
        summary: 'Test an endpoint',
        description:
          'The steps as they happen, one JSON document a line. A probe file is written, read back and removed. With a body, as the endpoint would be if PUT had that body.',
        tags: ['Administration'],
        params: schemas.endpointParams,
        querystring: noQuery,
        body: schemas.endpointUpdateBody.nullish(),
        response: responses({ 200: ['The steps, then the result', schemas.testLine, 'application/x-ndjson'] }, [...WITH_BODY, 'not_found']),
      },
      async handler(request, reply) {
        const access = await accessTo(vault, await find(request.params.endpoint_id), request.body ?? null);
        return reply.type('application/x-ndjson; charset=utf-8').send(test(access));
      },
    });

    app.route({
      method: 'POST',
      url: '/endpoints/:endpoint_id/accept-host-key',
      config: { scope: 'admin' },
      schema: {
        operationId: 'acceptHostKey',
        summary: 'Pin the host key of an SFTP endpoint',
        description: 'The one that you have seen and compared. Refused where the server shows another one now.',
        tags: ['Administration'],
        params: schemas.endpointParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: schemas.hostKeyBody,
        response: responses({ 200: ['The host key is pinned', schemas.endpoint] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
          'endpoint_failed',
        ]),
      },
      async handler(request, reply) {
        const found = await find(request.params.endpoint_id);
        return idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run() {
            const signal = AbortSignal.timeout(REMOTE_LIMIT_MS);
            const accepted = await acceptShownHostKey(commands, found, request.body.host_key_sha256, causeOf(request), signal);
            return { status: 200, body: await shown(accepted) };
          },
        });
      },
    });

    const switches = [
      ['pause', 'pauseEndpoint', 'Start nothing new on an endpoint', pauseEndpoint],
      ['resume', 'resumeEndpoint', 'Start transfers on an endpoint again', resumeEndpoint],
    ] as const;
    for (const [verb, operationId, summary, command] of switches) {
      app.route({
        method: 'POST',
        url: `/endpoints/:endpoint_id/${verb}`,
        config: { scope: 'admin' },
        schema: {
          operationId,
          summary,
          tags: ['Administration'],
          params: schemas.endpointParams,
          headers: idempotencyHeaders,
          querystring: noQuery,
          response: responses({ 200: ['The endpoint as it is now', schemas.endpoint] }, [
            'unknown_field',
            ...WITH_IDEMPOTENCY_KEY,
            'not_found',
          ]),
        },
        async handler(request, reply) {
          const { endpoint_id } = await find(request.params.endpoint_id);
          return idempotent(deps, request, reply, {
            reserve: () => ({}),
            run: async () => ({ status: 200, body: await shown(await command(commands, endpoint_id, causeOf(request))) }),
          });
        },
      });
    }

    app.route({
      method: 'GET',
      url: '/endpoints/:endpoint_id/files',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listFiles',
        summary: 'List a folder of an endpoint',
        tags: ['Administration'],
        params: schemas.endpointParams,
        querystring: schemas.filesQuery,
        response: responses({ 200: ['What the folder holds', schemas.fileList] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
          'endpoint_failed',
        ]),
      },
      async handler(request, reply): Promise<schemas.FileList> {
        const { path } = request.query;
        const left = new AbortController();
        reply.raw.once('close', () => left.abort());
        const signal = AbortSignal.any([left.signal, AbortSignal.timeout(REMOTE_LIMIT_MS)]);
        const entries = await listFolder(vault, await find(request.params.endpoint_id), path, signal);
        return { path, data: entries.slice(0, LISTED_AT_MOST), truncated: entries.length > LISTED_AT_MOST };
      },
    });
  };
}

function test(access: Access): Readable {
  return Readable.from(testLines(access));
}
