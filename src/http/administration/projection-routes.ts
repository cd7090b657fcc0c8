import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { timestamp } from '../../commands/answers.ts';
import { DomainError } from '../../domain/errors.ts';
import { type ProjectionStatus, projectionStatus } from '../../processes/projection-status.ts';
import { requestProjectionTask, type TaskKind, type TaskSubject } from '../../processes/projection-tasks.ts';
import { PROJECTIONS } from '../../projections/read-models.ts';
import { causeOf } from '../auth.ts';
import { idempotencyHeaders, noQuery, responses, WITH_IDEMPOTENCY_KEY } from '../documentation.ts';
import { idempotent } from '../idempotency.ts';
import type { AdministrationDeps } from './deps.ts';
import { type EventStreamDeps, type ServerEvent, sendEvents } from './event-stream.ts';

const LOOK_MS = 1_000;
/** Whoever asks within this time is given the same answer. */
const SHARED_MS = 500;

const position = z.string().describe('Place in the log, as a decimal string.');

const task = z
  .strictObject({
    state: z.enum(['waiting', 'running', 'done', 'failed']).describe('`waiting`: until a process with the role `projector` takes it up.'),
    requested_by: z.string(),
    requested_at: timestamp,
    started_at: timestamp.nullable(),
    finished_at: timestamp.nullable(),
    events: z.int().describe('Events that were read.'),
    share: z.number().describe('Of the log that has been read, 0 to 1.'),
    events_per_second: z.int().nullable(),
    seconds_left: z.number().nullable(),
    differences: z
      .array(z.string())
      .nullable()
      .describe('Keys of rows that were not as the log has them, 20 at most; null until they were compared.'),
    error: z.string().nullable().describe('Why it failed.'),
  })
  .meta({ id: 'ProjectionTask' });

const projection = z
  .strictObject({
    name: z.string(),
    state: z
      .enum(['running', 'stopped', 'failed'])
      .describe('`stopped`: no process follows the log for it. `failed`: this process does, and can not go on.'),
    detail: z.string().nullable().describe('What the process says of itself, where it runs it.'),
    version: z.int(),
    position,
    log_position: position.describe('The end of the log.'),
    lag_events: z.int().describe('Events that it has still to see; 1,000 are counted at most.'),
    lag_seconds: z.number().describe('Age of the oldest of them.'),
    moved_at: timestamp,
    tasks: z.array(z.enum(['rebuild', 'verify'])).describe('What can be asked for.'),
    rebuild: task.nullable().describe('The last rebuild that was asked for over the API.'),
    verify: task.nullable().describe('The last verification that was asked for over the API.'),
  })
  .meta({ id: 'Projection' });
type ProjectionView = z.output<typeof projection>;

const projectionList = z.strictObject({ data: z.array(projection).describe('By name.') }).meta({ id: 'ProjectionList' });
type ProjectionListView = z.output<typeof projectionList>;

const projectionParams = z.object({ name: z.string().meta({ examples: ['transfers'] }) });

const SUBJECTS: Record<TaskKind, string[]> = { rebuild: [...Object.keys(PROJECTIONS), 'dispatch'], verify: Object.keys(PROJECTIONS) };
const KINDS = Object.keys(SUBJECTS) as TaskKind[];

export function projectionRoutes(deps: AdministrationDeps & EventStreamDeps): FastifyPluginAsyncZod {
  const { sql, health } = deps;
  let shared: { at: number; list: Promise<ProjectionListView> } | null = null;

  async function look(): Promise<ProjectionListView> {
    const [all, { checks }] = await Promise.all([projectionStatus(deps), health.ready()]);
    return { data: all.map((status) => toProjection(status, checks[status.name])) };
  }

  function lookShared(): Promise<ProjectionListView> {
    if (!shared || performance.now() - shared.at > SHARED_MS) shared = { at: performance.now(), list: look() };
    return shared.list;
  }

  async function find(name: string): Promise<ProjectionView> {
    const found = (await look()).data.find((each) => each.name === name);
    if (!found) throw new DomainError('not_found', 'There is no such projection');
    return found;
  }

  async function* follow(signal: AbortSignal, quietMs: number): AsyncGenerator<ServerEvent> {
    let told = '';
    for (let toldAt = 0; !signal.aborted; await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined)) {
      const data = await lookShared();
      const text = JSON.stringify(data);
      if (text === told && performance.now() - toldAt < quietMs) continue;
      yield text === told ? null : { event: 'projections', data };
      told = text;
      toldAt = performance.now();
    }
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/projections',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listProjections',
        summary: 'List what follows the log',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['Projections and process managers', projectionList] }, ['unknown_field']),
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
        description: 'Server-sent events: `projections`, at first and whenever something has changed, at most one a second.',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['Events, until you leave or the service stops', projectionList, 'text/event-stream'] }, [
          'unknown_field',
        ]),
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
        response: responses({ 200: ['The projection', projection] }, ['unknown_field', 'not_found']),
      },
      handler: (request) => find(request.params.name),
    });

    const tasks = [
      ['rebuild', 'rebuildProjection', 'Make its tables anew beside the live ones, then let them take over'],
      ['verify', 'verifyProjection', 'Hold its tables against the log'],
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
            'It goes on after this answer; the projection tells how far it is. Asked for again before it is done, it is done once.',
          tags: ['Administration'],
          params: projectionParams,
          headers: idempotencyHeaders,
          querystring: noQuery,
          response: responses({ 202: ['It is going to be done', projection] }, ['unknown_field', ...WITH_IDEMPOTENCY_KEY, 'not_found']),
        },
        async handler(request, reply) {
          const { name } = request.params;
          if (!SUBJECTS[kind].includes(name)) throw new DomainError('not_found', `These can be asked for it: ${SUBJECTS[kind].join(', ')}`);
          return idempotent(deps, request, reply, {
            reserve: () => ({}),
            async run() {
              await requestProjectionTask(sql, name as TaskSubject, kind, causeOf(request).actor);
              return { status: 202, body: await find(name), location: `/v1/projections/${name}` };
            },
          });
        },
      });
    }
  };
}

function toProjection({ running, ...status }: ProjectionStatus, check: { ok: boolean; detail: string } | undefined): ProjectionView {
  return {
    ...status,
    tasks: KINDS.filter((kind) => SUBJECTS[kind].includes(status.name)),
    state: check?.ok === false ? 'failed' : running ? 'running' : 'stopped',
    detail: check?.detail ?? null,
    position: String(status.position),
    log_position: String(status.log_position),
  };
}
