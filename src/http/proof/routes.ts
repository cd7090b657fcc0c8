import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Config } from '../../config.ts';
import { toPagination } from '../../contract/pages.ts';
import * as schemas from '../../contract/proof.ts';
import { DomainError } from '../../domain/errors.ts';
import { CHECKPOINTS } from '../../domain/events/streams.ts';
import { originOf } from '../../domain/proof/checkpoint.ts';
import { isCheckpointEvent } from '../../domain/proof/signed-checkpoint.ts';
import { type CheckpointDeps, checkpointNow } from '../../processes/proof/checkpoint-now.ts';
import { sinkStates } from '../../processes/proof/sink-table.ts';
import { proveConsistency } from '../../projections/proof/consistency.ts';
import {
  checkpointOfSize,
  latestCheckpoint,
  listCheckpointsOfLog,
  listSigningKeys,
} from '../../projections/proof/queries.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  OPEN,
  responses,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** Routes by which auditors verify the log without trust in the server. */
export function proofRoutes(
  deps: CheckpointDeps & RoutesDeps & { config: Pick<Config, 'checkpointSinks'> },
): FastifyPluginAsyncZod {
  const { sql, store, logId, config } = deps;

  async function find(size: string): Promise<schemas.Checkpoint> {
    if (!/^[1-9]\d{0,14}$/.test(size))
      throw new DomainError(
        'not_found',
        'The size of a checkpoint is a whole number above 0: GET /v1/checkpoints lists them',
      );
    const found = await checkpointOfSize(sql, Number(size));
    if (found) return schemas.toCheckpoint(found);
    await rejectIfBehind(Number(size));
    throw new DomainError(
      'not_found',
      `No checkpoint was signed over exactly ${size} events: GET /v1/checkpoints lists their sizes`,
    );
  }

  /** Throws `unavailable` if the log has a checkpoint up to this size that the tree lacks. */
  async function rejectIfBehind(size: number): Promise<void> {
    const last = await latestCheckpoint(sql);
    const [next] = await store.read(CHECKPOINTS, (last?.revision ?? -1) + 1, 1);
    if (next && isCheckpointEvent(next) && next.data.size <= size)
      throw new DomainError(
        'unavailable',
        'The tree does not show the last checkpoints of the log yet; try again in a moment',
      );
  }

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
        data: await listSigningKeys(sql),
      }),
    });

    app.route({
      method: 'GET',
      url: '/checkpoints',
      config: { scope: 'audit:read' },
      schema: {
        operationId: 'listCheckpoints',
        summary: 'List signed checkpoints of the log',
        tags: ['Audit'],
        querystring: schemas.checkpointQuery,
        response: responses({ 200: ['A page of checkpoints', schemas.checkpointList] }, [
          'invalid_parameter',
          'unknown_field',
        ]),
      },
      async handler(request): Promise<schemas.CheckpointList> {
        const { checkpoints, total } = await listCheckpointsOfLog(sql, request.query);
        return {
          data: checkpoints.map(schemas.toCheckpoint),
          pagination: toPagination(request.query, checkpoints.length, total),
        };
      },
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
      url: '/checkpoints/latest',
      config: { scope: 'audit:read' },
      schema: {
        operationId: 'getLatestCheckpoint',
        summary: 'Get the latest checkpoint',
        tags: ['Audit'],
        querystring: noQuery,
        response: responses({ 200: ['The checkpoint', schemas.checkpoint] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(): Promise<schemas.Checkpoint> {
        const last = await latestCheckpoint(sql);
        if (last) return schemas.toCheckpoint(last);
        await rejectIfBehind(Number.POSITIVE_INFINITY);
        throw new DomainError('not_found', 'No checkpoint is signed yet');
      },
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

    app.route({
      method: 'GET',
      url: '/checkpoints/:size',
      config: { scope: 'audit:read' },
      schema: {
        operationId: 'getCheckpoint',
        summary: 'Get the checkpoint over a number of events',
        tags: ['Audit'],
        params: schemas.checkpointParams,
        querystring: noQuery,
        response: responses({ 200: ['The checkpoint', schemas.checkpoint] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      handler: async (request): Promise<schemas.Checkpoint> => find(request.params.size),
    });

    app.route({
      method: 'GET',
      url: '/checkpoints/:size/consistency',
      config: { scope: 'audit:read' },
      schema: {
        operationId: 'proveConsistency',
        summary: 'Prove that a checkpoint extends an older one',
        tags: ['Audit'],
        params: schemas.checkpointParams,
        querystring: schemas.consistencyQuery,
        response: responses({ 200: ['The proof', schemas.consistency] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<schemas.Consistency> {
        const { size, note } = await find(request.params.size);
        const from = Number(request.query.from);
        if (from > size)
          throw new DomainError(
            'invalid_parameter',
            `from: must be at most ${size}, the size of the checkpoint`,
          );
        const proof = await proveConsistency(sql, from, { size, note });
        return { from, size, proof: proof.map((hash) => Buffer.from(hash).toString('hex')) };
      },
    });
  };
}
