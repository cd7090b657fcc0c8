import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Config } from '../../config.ts';
import * as schemas from '../../contract/proof.ts';
import { originOf } from '../../domain/proof/checkpoint.ts';
import { type CheckpointDeps, checkpointNow } from '../../processes/proof/checkpoint-now.ts';
import { sinkStates } from '../../processes/proof/sink-table.ts';
import { listSigningKeys } from '../../projections/proof/queries.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  OPEN,
  responses,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** Routes about the keys that sign checkpoints, a checkpoint now, and where they are kept. */
export function signingRoutes(
  deps: CheckpointDeps & RoutesDeps & { config: Pick<Config, 'checkpointSinks'> },
): FastifyPluginAsyncZod {
  const { sql, logId, config } = deps;

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/log/keys',
      config: { open: true },
      schema: {
        operationId: 'listLogSigningKeys',
        summary: 'List the public keys that sign checkpoints',
        description: 'Needs no key.',
        tags: ['Audit'],
        security: [],
        querystring: noQuery,
        response: responses(
          { 200: ['Every key since the start of the log', schemas.signingKeyList] },
          ['unknown_field'],
          OPEN,
        ),
      },
      handler: async (): Promise<schemas.SigningKeyList> => ({
        origin: originOf(logId),
        data: await listSigningKeys(sql, logId),
      }),
    });

    app.route({
      method: 'POST',
      url: '/checkpoints',
      config: { scope: 'audit:all' },
      schema: {
        operationId: 'signCheckpoint',
        summary: 'Sign a checkpoint now',
        description:
          'Covers every event that the log holds now. If nothing happened since the last ' +
          'checkpoint, the answer is that one. Without a request, Waybill signs once a minute.',
        tags: ['Audit'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        response: responses({ 200: ['The checkpoint', schemas.checkpoint] }, [
          'unknown_field',
          ...WITH_IDEMPOTENCY_KEY,
        ]),
      },
      handler: (request, reply) =>
        idempotent(deps, request, reply, {
          reserve: () => ({}),
          run: async ({ commands, cause }) => ({
            status: 200,
            body: schemas.toCheckpoint(
              await checkpointNow({ ...deps, commands, store: commands.store }, cause),
            ),
          }),
        }),
    });

    app.route({
      method: 'GET',
      url: '/checkpoints/sinks',
      config: { scope: 'audit:all' },
      schema: {
        operationId: 'listCheckpointSinks',
        summary: 'List the places outside that keep checkpoints',
        tags: ['Audit'],
        querystring: noQuery,
        response: responses({ 200: ['What each of them keeps', schemas.sinkList] }, [
          'unknown_field',
        ]),
      },
      async handler(): Promise<schemas.SinkList> {
        const sinks = await sinkStates(sql, config.checkpointSinks);
        return { data: sinks.map(({ url, state }) => schemas.toSink(url, state)) };
      },
    });
  };
}
