import { Readable } from 'node:stream';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { timeLimit } from '../../adapters/files/abort.ts';
import * as answers from '../../contract/endpoints/answers.ts';
import * as requests from '../../contract/endpoints/requests.ts';
import { createKeyRecorder } from '../../processes/endpoints/announced-keys.ts';
import { noteObservation } from '../../processes/endpoints/connectivity.ts';
import {
  type EndpointTest,
  noteSignIn,
  observationOf,
} from '../../processes/endpoints/endpoint-test.ts';
import {
  acceptShownHostKey,
  accessOf,
  accessTo,
  listFolder,
} from '../../processes/endpoints/open-endpoint.ts';
import { disconnectSignal } from '../answers/disconnect.ts';
import { causeOf, clientOf, needScope } from '../auth/client.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';
import { shownEndpoint, usableEndpoint } from './answers.ts';
import { testLines } from './endpoint-test.ts';

const MAX_LISTED = 10_000;
const REMOTE_LIMIT_MS = 30_000;

/** Routes that connect to the server of an endpoint: tests, its host key, its folders. */
export function endpointServerRoutes(deps: OperatorRoutesDeps): FastifyPluginAsyncZod {
  const { sql, store, vault, logger } = deps;
  const recordKeys = createKeyRecorder({ store, logger });

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/endpoints/test',
      config: { scope: 'admin' },
      schema: {
        operationId: 'testNewEndpoint',
        summary: 'Test an endpoint before it is saved',
        description:
          'The steps as they happen, one JSON document a line. A probe file is written, read ' +
          'back and removed. A step without an answer fails with `timeout` after at most 30 s, one ' +
          'with the probe file after 60 s.',
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
          '`health` shows it. A step without an answer fails with `timeout` after at most 30 s, ' +
          'one with the probe file after 60 s.',
        tags: ['Administration'],
        params: requests.endpointParams,
        querystring: noQuery,
        body: requests.endpointUpdate.nullish(),
        response: responses(
          { 200: ['The steps, then the result', answers.testLine, 'application/x-ndjson'] },
          [...WITH_BODY, 'not_found', 'endpoint_failed'],
        ),
      },
      async handler(request, reply) {
        const changes = request.body ?? null;
        // A test of other settings connects to a server that the client chooses.
        if (changes !== null) needScope(clientOf(request), 'admin');
        const endpoint = await usableEndpoint(deps, request);
        const access = await accessTo(vault, endpoint, changes);
        const warn = (error: unknown) =>
          logger.warn({ err: error }, 'the result of an endpoint test could not be recorded');
        const note = (test: EndpointTest) =>
          Promise.all([
            recordKeys(endpoint, test.announced, causeOf(request)),
            noteObservation(sql, observationOf(endpoint.endpoint_id, test)).catch(warn),
            noteSignIn(sql, endpoint, test).catch(warn),
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
        const found = await usableEndpoint(deps, request);
        return idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run({ commands, cause }) {
            const signal = timeLimit(REMOTE_LIMIT_MS, 'connect');
            const accepted = await acceptShownHostKey(
              commands,
              found,
              request.body.host_key_sha256,
              cause,
              signal,
            );
            return { status: 200, body: await shownEndpoint(deps, request, accepted) };
          },
        });
      },
    });

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
        const timeout = timeLimit(REMOTE_LIMIT_MS, 'open');
        const signal = AbortSignal.any([disconnectSignal(reply), timeout]);
        const entries = await listFolder(deps, await usableEndpoint(deps, request), path, signal);
        return {
          path,
          data: entries.slice(0, MAX_LISTED).map(({ etag: _, ...entry }) => entry),
          truncated: entries.length > MAX_LISTED,
        };
      },
    });
  };
}
