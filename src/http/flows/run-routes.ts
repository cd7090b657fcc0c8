import type { FastifyReply } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { loadFlow, reachedRevision, requestRun } from '../../commands/flows.ts';
import * as answers from '../../contract/flows/answers.ts';
import * as requests from '../../contract/flows/requests.ts';
import { toFile, toRun } from '../../contract/flows/views.ts';
import { toPage } from '../../contract/pages.ts';
import { newId } from '../../domain/ids.ts';
import { dryRun } from '../../processes/flows/dry-run.ts';
import { listFiles, listRuns } from '../../projections/flows/queries.ts';
import { disconnectSignal } from '../answers/disconnect.ts';
import { clientOf } from '../auth/client.ts';
import { idempotent, type Operation } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  JSON_TYPE,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { RoutesDeps } from '../route-deps.ts';

const DRY_RUN_WITHIN_MS = 30_000;
const TAGS = ['Flows'];

/** The runs of a flow, and the files that they took. */
export function flowRunRoutes(deps: RoutesDeps): FastifyPluginAsyncZod {
  const { sql, commands } = deps;

  return async (app) => {
    app.route({
      method: 'POST',
      url: '/flows/:flow_id/runs',
      config: { scope: 'flows:write' },
      schema: {
        operationId: 'runFlow',
        summary: 'Run a flow now',
        description:
          'The run begins a moment later, also if the flow is paused. With `dry_run`, the answer ' +
          'says what a run would take now, what not, and why. Nothing is taken, and no ' +
          'Idempotency-Key keeps the answer.',
        tags: TAGS,
        params: requests.flowParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: requests.runRequest,
        response: responses(
          {
            200: [
              'What a run would do (`dry_run`)',
              answers.runAnswer,
              JSON_TYPE,
              answers.EXAMPLE_DRY_RUN,
            ],
            202: ['The run is requested', answers.runAnswer, JSON_TYPE, answers.EXAMPLE_RUN],
          },
          [...WITH_BODY, ...WITH_IDEMPOTENCY_KEY, 'not_found'],
        ),
      },
      async handler(request, reply) {
        const { accountId } = clientOf(request);
        const { flow_id } = request.params;
        return request.body.dry_run
          ? idempotent(deps, request, reply, lookOnly(deps, accountId, flow_id, reply))
          : idempotent(deps, request, reply, startOfRun(deps, accountId, flow_id));
      },
    });

    app.route({
      method: 'GET',
      url: '/flows/:flow_id/runs',
      config: { scope: 'flows:read' },
      schema: {
        operationId: 'listFlowRuns',
        summary: 'List the runs of a flow',
        tags: TAGS,
        params: requests.flowParams,
        querystring: requests.flowPageQuery,
        response: responses({ 200: ['A page of runs', answers.flowRunList] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.FlowRunList> {
        const { flow_id } = request.params;
        await loadFlow(commands, clientOf(request).accountId, flow_id);
        const { runs, total } = await listRuns(sql, flow_id, request.query);
        return toPage(runs.map(toRun), request.query, total);
      },
    });

    app.route({
      method: 'GET',
      url: '/flows/:flow_id/files',
      config: { scope: 'flows:read', showsTransfers: true },
      schema: {
        operationId: 'listFlowFiles',
        summary: 'List the files of a flow',
        tags: TAGS,
        params: requests.flowParams,
        querystring: requests.flowPageQuery,
        response: responses({ 200: ['A page of files', answers.flowFileList] }, [
          'invalid_parameter',
          'unknown_field',
          'not_found',
        ]),
      },
      async handler(request): Promise<answers.FlowFileList> {
        const { flow_id } = request.params;
        await loadFlow(commands, clientOf(request).accountId, flow_id);
        const { files, total } = await listFiles(sql, flow_id, request.query);
        return toPage(files.map(toFile), request.query, total);
      },
    });
  };
}

/** Says what a run would take now. */
function lookOnly(
  { sql, commands }: RoutesDeps,
  accountId: string,
  flowId: string,
  reply: FastifyReply,
): Operation<object, answers.DryRun> {
  return {
    readOnly: true,
    reserve: () => ({}),
    async run() {
      const { state } = await loadFlow(commands, accountId, flowId);
      const timeout = AbortSignal.timeout(DRY_RUN_WITHIN_MS);
      const signal = AbortSignal.any([disconnectSignal(reply), timeout]);
      return { status: 200, body: await dryRun({ sql, commands }, state, signal) };
    },
  };
}

/** Requests a run, which the process manager starts. */
function startOfRun(
  { commands }: RoutesDeps,
  accountId: string,
  flowId: string,
): Operation<{ runId: string; reached: number }, answers.RequestedRun> {
  return {
    reserve: async () => ({
      runId: newId('run'),
      reached: await reachedRevision(commands, flowId),
    }),
    async run({ reserved: { runId: id, reached }, commands: through, cause }) {
      const { runId, position } = await requestRun(through, accountId, flowId, id, cause, reached);
      await through.waitFor('flows', position);
      return { status: 202, body: { id: runId, status: 'requested' } };
    },
  };
}
