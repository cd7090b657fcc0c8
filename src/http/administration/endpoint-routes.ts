import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pauseEndpoint, removeEndpoint, resumeEndpoint } from '../../commands/endpoints.ts';
import type { Handled } from '../../commands/handle.ts';
import { createEndpoint, updateEndpoint } from '../../commands/save-endpoint.ts';
import * as answers from '../../contract/endpoints/answers.ts';
import * as requests from '../../contract/endpoints/requests.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import type { Endpoint } from '../../domain/endpoint.ts';
import { notFound } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { createKeyRecorder } from '../../processes/endpoints/announced-keys.ts';
import { endpointConnectivity, noteObservation } from '../../processes/endpoints/connectivity.ts';
import { type EndpointTest, observationOf } from '../../processes/endpoints/endpoint-test.ts';
import {
  acceptShownHostKey,
  accessOf,
  accessTo,
  listFolder,
} from '../../processes/endpoints/open-endpoint.ts';
import {
  type ConfiguredEndpoint,
  findEndpoint,
  listEndpoints,
} from '../../projections/catalog/queries.ts';
import { accountLimit, causeOf, clientOf, needScope } from '../auth.ts';
import {
  idempotencyHeaders,
  noQuery,
  nothing,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../documentation.ts';
import { idempotent } from '../idempotency.ts';
import type { AdministrationDeps } from './deps.ts';
import { testLines } from './endpoint-test.ts';

const MAX_LISTED = 10_000;
const REMOTE_LIMIT_MS = 30_000;

export function endpointRoutes(deps: AdministrationDeps): FastifyPluginAsyncZod {
  const { sql, store, vault, logger } = deps;
  const recordKeys = createKeyRecorder({ store, logger });

  /** Throws `not_found`, also for an endpoint that the client's account may not use. */
  async function find(
    request: FastifyRequest<{ Params: { endpoint_id: string } }>,
  ): Promise<ConfiguredEndpoint> {
    const found = await findEndpoint({ sql, store }, request.params.endpoint_id);
    if (!found || !mayUse(found, accountLimit(request))) throw notFound('endpoint');
    return found;
  }

  async function shown(
    request: FastifyRequest,
    { state, revision }: Pick<Handled<Endpoint>, 'state' | 'revision'>,
  ): Promise<answers.Endpoint> {
    const health = await endpointConnectivity(sql);
    return toEndpoint({ ...state, revision }, health.get(state.endpoint_id), accountLimit(request));
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/endpoints',
      config: { scope: 'observe' },
      schema: {
        operationId: 'listEndpoints',
        summary: 'List endpoints',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses(
          { 200: ['Every endpoint that the client may use', answers.endpointList] },
          ['unknown_field'],
        ),
      },
      async handler(request): Promise<answers.EndpointList> {
        const [endpoints, health] = await Promise.all([
          listEndpoints(sql),
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
            return { status: 201, body: await shown(request, created), location };
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
        description:
          'The steps as they happen, one JSON document a line. A probe file is written, read ' +
          'back and removed.',
        tags: ['Administration'],
        querystring: noQuery,
        body: requests.endpointRequest,
        response: responses(
          { 200: ['The steps, then the result', answers.testLine, 'application/x-ndjson'] },
          WITH_BODY,
        ),
      },
      handler: async (request, reply) =>
        reply
          .type('application/x-ndjson; charset=utf-8')
          .send(Readable.from(testLines(accessOf(request.body)))),
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
        const state = await find(request);
        return shown(request, { state, revision: state.revision });
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
        const { endpoint_id } = await find(request);
        return shown(
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
        const { endpoint_id } = await find(request);
        await removeEndpoint(deps.commands, endpoint_id, causeOf(request));
        return reply.code(204).send();
      },
    });

    app.route({
      method: 'POST',
      url: '/endpoints/:endpoint_id/test',
      config: { scope: 'operate' },
      schema: {
        operationId: 'testEndpoint',
        summary: 'Test an endpoint',
        description:
          'The steps as they happen, one JSON document a line. The test writes a probe file, ' +
          'reads it back and removes it. With a body, it tests the endpoint as PUT would ' +
          'configure it, which needs the scope `admin`. Without one, the result counts as a probe: ' +
          '`health` shows it.',
        tags: ['Administration'],
        params: requests.endpointParams,
        querystring: noQuery,
        body: requests.endpointUpdate.nullish(),
        response: responses(
          { 200: ['The steps, then the result', answers.testLine, 'application/x-ndjson'] },
          [...WITH_BODY, 'not_found'],
        ),
      },
      async handler(request, reply) {
        const changes = request.body ?? null;
        // A test of other settings connects to a server that the client chooses.
        if (changes !== null) needScope(clientOf(request), 'admin');
        const endpoint = await find(request);
        const access = await accessTo(vault, endpoint, changes);
        const note = (test: EndpointTest) =>
          Promise.all([
            recordKeys(endpoint, test.announced, causeOf(request)),
            noteObservation(sql, observationOf(endpoint.endpoint_id, test)).catch(
              (error: unknown) =>
                logger.warn({ err: error }, 'the result of an endpoint test could not be recorded'),
            ),
          ]);
        return reply
          .type('application/x-ndjson; charset=utf-8')
          .send(Readable.from(testLines(access, changes === null ? note : undefined)));
      },
    });

    app.route({
      method: 'POST',
      url: '/endpoints/:endpoint_id/accept-host-key',
      config: { scope: 'admin' },
      schema: {
        operationId: 'acceptHostKey',
        summary: 'Accept a host key of an SFTP endpoint',
        description:
          'The host key that you have compared. One of `announced_host_keys` is accepted beside ' +
          'the others. Any other takes their place: it is rejected if the server now presents ' +
          'another one. A key that is accepted again no longer expires.',
        tags: ['Administration'],
        params: requests.endpointParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.hostKeyRequest,
        response: responses({ 200: ['The host key is accepted', answers.endpoint] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
          'endpoint_failed',
        ]),
      },
      async handler(request, reply) {
        const found = await find(request);
        return idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run({ commands, cause }) {
            const signal = AbortSignal.timeout(REMOTE_LIMIT_MS);
            const accepted = await acceptShownHostKey(
              commands,
              found,
              request.body.host_key_sha256,
              cause,
              signal,
            );
            return { status: 200, body: await shown(request, accepted) };
          },
        });
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
          const { endpoint_id } = await find(request);
          return idempotent(deps, request, reply, {
            reserve: () => ({}),
            run: async ({ commands, cause }) => ({
              status: 200,
              body: await shown(request, await command(commands, endpoint_id, cause)),
            }),
          });
        },
      });
    }

    app.route({
      method: 'GET',
      url: '/endpoints/:endpoint_id/files',
      config: { scope: 'operate' },
      schema: {
        operationId: 'listFiles',
        summary: 'List a folder of an endpoint',
        tags: ['Administration'],
        params: requests.endpointParams,
        querystring: requests.filesQuery,
        response: responses({ 200: ['What the folder holds', answers.fileList] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
          'endpoint_failed',
        ]),
      },
      async handler(request, reply): Promise<answers.FileList> {
        const { path } = request.query;
        const left = new AbortController();
        reply.raw.once('close', () => left.abort());
        const signal = AbortSignal.any([left.signal, AbortSignal.timeout(REMOTE_LIMIT_MS)]);
        const entries = await listFolder(vault, await find(request), path, signal);
        return {
          path,
          data: entries.slice(0, MAX_LISTED).map(({ etag: _, ...entry }) => entry),
          truncated: entries.length > MAX_LISTED,
        };
      },
    });
  };
}

/** `account` is null for a client that may use every endpoint. */
function mayUse({ accounts }: Endpoint, account: string | null): boolean {
  return account === null || accounts === null || accounts.includes(account);
}
