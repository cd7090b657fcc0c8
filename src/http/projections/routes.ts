import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pause } from '../../concurrency/pause.ts';
import {
  type Projection,
  type ProjectionList,
  projection,
  projectionList,
  projectionParams,
} from '../../contract/projections.ts';
import { DomainError, notFound } from '../../domain/errors.ts';
import { type ProjectionStatus, projectionStatus } from '../../processes/projections/status.ts';
import {
  requestProjectionTask,
  type TaskKind,
  type TaskSubject,
} from '../../processes/projections/tasks.ts';
import { untilAnswered } from '../../processes/until-answered.ts';
import { PROJECTIONS } from '../../projections/read-models.ts';
import { type EventStreamDeps, type ServerEvent, sendEvents } from '../answers/event-stream.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';

const LOOK_MS = 1_000;
/** Requests within this time share one answer. */
const SHARED_MS = 500;

const SUBJECTS: Record<TaskKind, string[]> = {
  rebuild: [...Object.keys(PROJECTIONS), 'dispatch'],
  verify: Object.keys(PROJECTIONS),
};
const KINDS = Object.keys(SUBJECTS) as TaskKind[];

export function projectionRoutes(
  deps: OperatorRoutesDeps & EventStreamDeps,
): FastifyPluginAsyncZod {
  const { sql, health } = deps;
  let shared: { at: number; list: Promise<ProjectionList> } | null = null;

  async function look(only?: string): Promise<ProjectionList> {
    const [all, { checks }] = await Promise.all([projectionStatus(deps, only), health.ready()]);
    return { data: all.map((status) => toProjection(status, checks[status.name])) };
  }

  function lookShared(): Promise<ProjectionList> {
    if (!shared || performance.now() - shared.at > SHARED_MS)
      shared = { at: performance.now(), list: look() };
    return shared.list;
  }

  async function find(name: string): Promise<Projection> {
    const [found] = (await look(name)).data;
    if (!found) throw notFound('projection');
    return found;
  }

  async function* follow(signal: AbortSignal, quietMs: number): AsyncGenerator<ServerEvent> {
    let sent = '';
    for (let sentAt = 0; !signal.aborted; await pause(LOOK_MS, signal)) {
      const data = await (sent === '' ? lookShared() : untilAnswered(lookShared, signal));
      const text = JSON.stringify(data);
      if (text === sent && performance.now() - sentAt < quietMs) continue;
      yield text === sent ? null : { event: 'projections', data };
      sent = text;
      sentAt = performance.now();
    }
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/projections',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listProjections',
        summary: 'List projections and process managers',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['Projections and process managers', projectionList] }, [
          'unknown_field',
        ]),
      },
      handler: () => look(),
    });

    app.route({
      method: 'GET',
      url: '/projections/live',
      config: { scope: 'admin' },
      schema: {
        operationId: 'followProjections',
        summary: 'Follow projections',
        description:
          'Server-sent events: `projections` at the start and after each change, at most one ' +
          'a second.',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses(
          {
            200: [
              'Events, until you disconnect or the service stops',
              projectionList,
              'text/event-stream',
            ],
          },
          ['unknown_field'],
        ),
      },
      handler: (request, reply) => sendEvents(deps, request, reply, follow),
    });

    app.route({
      method: 'GET',
      url: '/projections/:name',
      config: { scope: 'admin' },
      schema: {
        operationId: 'getProjection',
        summary: 'Get a projection',
        tags: ['Administration'],
        params: projectionParams,
        querystring: noQuery,
        response: responses({ 200: ['The projection', projection] }, [
          'unknown_field',
          'not_found',
        ]),
      },
      handler: (request) => find(request.params.name),
    });

    const tasks = [
      ['rebuild', 'rebuildProjection', 'Rebuild a projection without downtime'],
      ['verify', 'verifyProjection', 'Compare a projection with the log'],
    ] as const;
    for (const [kind, operationId, summary] of tasks) {
      app.route({
        method: 'POST',
        url: `/projections/:name/${kind}`,
        config: { scope: 'admin' },
        schema: {
          operationId,
          summary,
          description:
            'It runs in the background, and the projection shows its progress. A second ' +
            'request does not start it twice.',
          tags: ['Administration'],
          params: projectionParams,
          headers: idempotencyHeaders,
          querystring: noQuery,
          response: responses({ 202: ['The task is accepted', projection] }, [
            'unknown_field',
            ...WITH_IDEMPOTENCY_KEY,
            'not_found',
          ]),
        },
        async handler(request, reply) {
          const { name } = request.params;
          if (!SUBJECTS[kind].includes(name))
            throw new DomainError(
              'not_found',
              `No task ${kind} for this name. It exists for ${SUBJECTS[kind].join(', ')}`,
            );
          return idempotent(deps, request, reply, {
            reserve: () => ({}),
            async run({ cause }) {
              await requestProjectionTask(sql, name as TaskSubject, kind, cause.actor);
              return { status: 202, body: await find(name), location: `/v1/projections/${name}` };
            },
          });
        },
      });
    }
  };
}

function toProjection(
  { running, ...status }: ProjectionStatus,
  check: { ok: boolean; detail: string } | undefined,
): Projection {
  return {
    ...status,
    tasks: KINDS.filter((kind) => SUBJECTS[kind].includes(status.name)),
    state: check?.ok === false ? 'failed' : running ? 'running' : 'stopped',
    detail: check?.detail ?? null,
    position: String(status.position),
    log_position: String(status.log_position),
  };
}
