import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { toPage } from '../../contract/pages.ts';
import * as schemas from '../../contract/proof.ts';
import { DomainError, fieldError } from '../../domain/errors.ts';
import { CHECKPOINTS } from '../../domain/events/streams.ts';
import { isCheckpointEvent } from '../../domain/proof/signed-checkpoint.ts';
import { proveConsistency } from '../../projections/proof/consistency.ts';
import {
  checkpointOfSize,
  latestCheckpoint,
  listCheckpointsOfLog,
} from '../../projections/proof/queries.ts';
import { noQuery, responses } from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

/** Routes that show signed checkpoints: auditors verify the log with them, not with trust in it. */
export function checkpointRoutes({
  sql,
  store,
}: Pick<RoutesDeps, 'sql' | 'store'>): FastifyPluginAsyncZod {
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
      `No checkpoint has the size ${size}: GET /v1/checkpoints lists those that there are`,
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
        return toPage(checkpoints.map(schemas.toCheckpoint), request.query, total);
      },
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
          throw fieldError(
            'from',
            `must be at most ${size}, the size of the checkpoint`,
            'invalid_parameter',
          );
        const proof = await proveConsistency(sql, from, { size, note });
        return { from, size, proof: proof.map((hash) => Buffer.from(hash).toString('hex')) };
      },
    });
  };
}
