import type { FastifyPluginAsync } from 'fastify';
import type { Registry } from 'prom-client';
import type { AccessRecorder } from './access-log/recorder.ts';
import type { RequestAdmission } from './admission/request-admission.ts';
import { compressAnswers } from './answers/compression.ts';
import { MAX_STREAMS } from './answers/event-stream.ts';
import { limitOpenAnswers } from './answers/open-answers.ts';
import { auditRoutes } from './audit/routes.ts';
import type { People } from './auth/people.ts';
import { createWhileAllowed } from './auth/while-allowed.ts';
import { batchChangeRoutes } from './batches/change-routes.ts';
import { batchRoutes } from './batches/routes.ts';
import { consoleRoutes } from './console/routes.ts';
import { endpointChangeRoutes } from './endpoints/change-routes.ts';
import { endpointRoutes } from './endpoints/routes.ts';
import { endpointServerRoutes } from './endpoints/server-routes.ts';
import { flowChangeRoutes } from './flows/change-routes.ts';
import { flowRoutes } from './flows/routes.ts';
import { flowRunRoutes } from './flows/run-routes.ts';
import { healthRoutes } from './health.ts';
import { keyRoutes } from './keys/routes.ts';
import { metricsRoute } from './metrics.ts';
import { describeApi, openApiRoute } from './openapi/openapi.ts';
import { operationRoutes } from './operations/routes.ts';
import { projectionRoutes } from './projections/routes.ts';
import { checkpointRoutes } from './proof/checkpoint-routes.ts';
import { receiptRoutes } from './proof/receipt-routes.ts';
import { signingRoutes } from './proof/signing-routes.ts';
import type { OperatorRoutesDeps } from './route-deps.ts';
import { oidcRoutes } from './session/oidc-routes.ts';
import { sessionRoutes } from './session/routes.ts';
import { transferChangeRoutes } from './transfers/change-routes.ts';
import { transferCountRoutes } from './transfers/count-routes.ts';
import { operatorTransferRoutes } from './transfers/operator-routes.ts';
import { transferRoutes } from './transfers/routes.ts';
import { webhookChangeRoutes } from './webhooks/change-routes.ts';
import { deliveryRoutes } from './webhooks/delivery-routes.ts';
import { operatorDeliveryRoutes } from './webhooks/operator-routes.ts';
import { redeliveryRoutes } from './webhooks/redelivery-routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

/** Exports of one key or person that are open in this process, at most. */
const MAX_EXPORTS = 20;

export interface AllRoutesDeps extends OperatorRoutesDeps {
  requestAdmission: RequestAdmission;
  people: People;
  access: AccessRecorder;
  /** Identifies the log. */
  logId: string;
  metrics: Registry;
  /** How often a long answer checks the access of its client. */
  accessCheckMs?: number | undefined;
  /** Exports that a client may have open in this process: 20 by default. */
  maxExports?: number | undefined;
}

/** Registers everything that the server answers. */
export function routes(deps: AllRoutesDeps): FastifyPluginAsync {
  const long = {
    whileAllowed: createWhileAllowed(deps),
    limitExports: limitOpenAnswers('exports', deps.maxExports ?? MAX_EXPORTS),
  };
  const api = together([
    openApiRoute,
    sessionRoutes(deps),
    oidcRoutes(deps),
    transferRoutes({ ...deps, ...long }),
    transferCountRoutes(deps),
    transferChangeRoutes(deps),
    batchRoutes(deps),
    batchChangeRoutes(deps),
    flowRoutes(deps),
    flowChangeRoutes(deps),
    flowRunRoutes(deps),
    webhookRoutes(deps),
    webhookChangeRoutes(deps),
    deliveryRoutes(deps),
    redeliveryRoutes(deps),
    receiptRoutes(deps),
    auditRoutes({ ...deps, ...long }),
    signingRoutes(deps),
    checkpointRoutes(deps),
    operatorRoutes(deps),
  ]);
  return async (app) => {
    await compressAnswers(app);
    await describeApi(app);
    await app.register(api, { prefix: '/v1' });
    await app.register(consoleRoutes);
    await app.register(healthRoutes(deps.health));
    await app.register(metricsRoute(deps.metrics));
  };
}

/** Routes for operators. With the scope `admin`, they act across the whole installation. */
function operatorRoutes(deps: OperatorRoutesDeps): FastifyPluginAsync {
  return async (app) => {
    const closing = new AbortController();
    // Before the server waits for running requests: event streams would never end.
    app.addHook('preClose', async () => closing.abort());
    const limitStreams = limitOpenAnswers('event streams', deps.maxStreams ?? MAX_STREAMS);
    const live = { ...deps, closing: closing.signal, limitStreams };
    const add = together([
      endpointRoutes(deps),
      endpointChangeRoutes(deps),
      endpointServerRoutes(deps),
      keyRoutes(deps),
      operatorDeliveryRoutes(deps),
      operatorTransferRoutes(live),
      projectionRoutes(live),
      operationRoutes(deps),
    ]);
    await add(app, {});
  };
}

/**
 * Adds the routes of all these plugins to one instance. None has a hook for its own requests, and
 * Fastify spends a fifth of its start on separate instances.
 */
function together(plugins: FastifyPluginAsync[]): FastifyPluginAsync {
  return async (app, options) => {
    for (const add of plugins) await add(app, options);
  };
}
