import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Sql } from '../adapters/postgres/connect.ts';
import { BODY_LIMIT } from '../contract/body-limits.ts';
import type { Problem } from '../contract/problems.ts';
import { DomainError, reasonOf } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { Queue } from '../processes/dispatch/queue-estimate.ts';
import { type AccessRecorder, createAccessRecorder } from './access.ts';
import { confirmed } from './admission/admitted.ts';
import { authenticate } from './admission/authenticate.ts';
import { rateHeaders } from './admission/rate-limit.ts';
import { createRequestAdmission, type RequestAdmission } from './admission/request-admission.ts';
import { auditRoutes } from './audit/routes.ts';
import { isHttps, registerCookies } from './auth/cookie.ts';
import { createPeople, type People } from './auth/people.ts';
import { createWhileAllowed } from './auth/while-allowed.ts';
import { batchChangeRoutes } from './batches/change-routes.ts';
import { batchRoutes } from './batches/routes.ts';
import { closeIdleConnections } from './closing.ts';
import { compressAnswers } from './compression.ts';
import { consoleRoutes } from './console/routes.ts';
import { endpointChangeRoutes } from './endpoints/change-routes.ts';
import { endpointRoutes } from './endpoints/routes.ts';
import { endpointServerRoutes } from './endpoints/server-routes.ts';
import { flowChangeRoutes } from './flows/change-routes.ts';
import { flowRoutes } from './flows/routes.ts';
import { flowRunRoutes } from './flows/run-routes.ts';
import { type Health, healthRoutes } from './health.ts';
import type { IdempotencyDeps } from './idempotency/idempotency.ts';
import { createIdempotencyKeys } from './idempotency/table.ts';
import { keyRoutes } from './keys/routes.ts';
import { logAnswer, safePath } from './log.ts';
import { createHttpMetrics, metricsRoute } from './metrics.ts';
import { describeApi, openApiRoute } from './openapi/openapi.ts';
import { operationRoutes } from './operations/routes.ts';
import { untilTransfersShown } from './own-writes.ts';
import { NOTHING_HERE, PROBLEM_TYPE, RETRY_SECONDS, toProblem } from './problems.ts';
import { projectionRoutes } from './projections/routes.ts';
import { checkpointRoutes } from './proof/checkpoint-routes.ts';
import { receiptRoutes } from './proof/receipt-routes.ts';
import { signingRoutes } from './proof/signing-routes.ts';
import { acceptJson, discardUnreadBodies } from './requests/body.ts';
import { createClientErrorHandler } from './requests/client-error.ts';
import { continueLate } from './requests/expect.ts';
import { createMethodGuard } from './requests/methods.ts';
import { isApi } from './requests/path.ts';
import {
  answerEveryRequest,
  checkHost,
  checkQuery,
  closeAfterUpgrade,
  ignoreRange,
} from './requests/protocol.ts';
import {
  dropLateAnswer,
  limitAppends,
  limitHandlers,
  mayTakeEffect,
  WITHIN_MS,
  withinLimit,
} from './requests/time-limit.ts';
import { rejectUnreadBody, validatorCompiler } from './requests/validation.ts';
import type { OperatorRoutesDeps } from './route-deps.ts';
import { oidcRoutes } from './session/oidc-routes.ts';
import { sessionRoutes } from './session/routes.ts';
import { transferChangeRoutes } from './transfers/change-routes.ts';
import { operatorTransferRoutes } from './transfers/operator-routes.ts';
import { transferRoutes } from './transfers/routes.ts';
import { webhookChangeRoutes } from './webhooks/change-routes.ts';
import { deliveryRoutes } from './webhooks/delivery-routes.ts';
import { operatorDeliveryRoutes } from './webhooks/operator-routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

/** Time for a whole request to arrive. */
const REQUEST_TIMEOUT_MS = 30_000;
/** How long browsers use https only. */
const HTTPS_ONLY = 'max-age=31536000';
/** How often connections are checked for requests that took longer. */
const TIMEOUT_CHECK_MS = 1_000;

export interface HttpServerDeps extends Omit<OperatorRoutesDeps, 'idempotencyKeys'> {
  sql: Sql;
  /** Its commits reach the disk a moment later: a crash can lose the last ones. */
  derived: Sql;
  logger: Logger;
  /** Identifies the log. */
  logId: string;
  queue: Pick<Queue, 'ask'>;
  /** Requests per minute and key. */
  rateLimit: number;
  /** Addresses or networks whose X-Forwarded-For is trusted. */
  trustedProxies: string[];
  tls?: { cert: string | Buffer; key: string | Buffer } | undefined;
  health: Health;
  metrics: Registry;
  /** How often a long answer checks the access of its client. */
  accessCheckMs?: number | undefined;
  /** How long records of accesses gather. */
  accessGatherMs?: number | undefined;
  requestTimeoutMs?: number | undefined;
  /** How long a request may wait for the stores, in all: 15 s by default. */
  answerWithinMs?: number | undefined;
}

/**
 * Creates the HTTP server: API, console, documentation, health and metrics. Its `close` waits for
 * running requests.
 */
export function createHttpServer(deps: HttpServerDeps): FastifyInstance {
  const { logger, tls, trustedProxies, requestTimeoutMs = REQUEST_TIMEOUT_MS } = deps;
  const requestAdmission = createRequestAdmission(deps.derived, deps.rateLimit, deps);
  const people = createPeople(deps);
  const access = createAccessRecorder(deps);
  const authentication = { requestAdmission, people };
  const metrics = createHttpMetrics(deps.metrics);
  const clientErrors = createClientErrorHandler(async (address) => {
    const { window } = await requestAdmission.admit(null, address);
    return rateHeaders(window);
  });
  const http = {
    // `checkHost` answers a missing Host with a problem document.
    requireHostHeader: false,
    // Node swaps the two limits if that of the headers is longer: it is a minute by default.
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  };
  const app: FastifyInstance = Fastify({
    ...(tls ? { https: { ...tls, ...http, allowHalfOpen: true } } : { http }),
    loggerInstance: logger as FastifyBaseLogger,
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'request_id',
    }),
    genReqId: () => newId('req'),
    bodyLimit: BODY_LIMIT,
    requestTimeout: requestTimeoutMs,
    trustProxy: trustedProxies.length > 0 ? trustedProxies : false,
    // While the server closes, it still answers requests on open connections.
    return503OnClosing: false,
    clientErrorHandler: clientErrors.handle,
    frameworkErrors: (error, request, reply) => void answerFrameworkError(error, request, reply),
  });

  async function answerFrameworkError(
    error: Error,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<void> {
    clientErrors.watch(reply.raw);
    setCommonHeaders(request, reply, deps.config);
    // Fastify runs no hooks for these errors.
    reply.raw.once('finish', () => logAnswer(metrics, request, reply));
    // Fastify decorates no request with a broken URL.
    request.leftMs = deps.answerWithinMs ?? WITHIN_MS;
    const admit = async () =>
      isApi(request) ? authenticate(authentication, request, reply) : undefined;
    const rejection = await withinLimit(request, reply, admit).catch((reason: unknown) => reason);
    answerError(rejection ?? error, request, reply);
  }

  function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const problem = toProblem(error, request.id, { mayTakeEffect: mayTakeEffect(request) });
    access.rejected(request, problem.code, error);
    if (problem.status >= 500) logFailure(error, problem, request);
    answerProblem(problem, reply);
  }

  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler(async (error, request, reply) => {
    const answered = await withinLimit(request, reply, () =>
      confirmed(authentication, request, reply, error),
    ).catch((reason: unknown) => reason);
    answerError(answered, request, reply);
    dropLateAnswer(answered, reply);
    return reply;
  });
  // Of missing files: the method guard rejects unknown paths before.
  app.setNotFoundHandler(() => {
    throw new DomainError('not_found', NOTHING_HERE);
  });
  limitHandlers(app, deps.answerWithinMs);
  acceptJson(app);
  continueLate(app);
  discardUnreadBodies(app);
  registerCookies(app, deps.config.publicUrl);
  app.decorateRequest('client', null);
  app.decorateRequest('counted', null);
  app.decorateRequest('queue', null);
  app.decorateRequest('unshown', null);
  app.decorateRequest('keyRow', null);
  app.decorateRequest('condition', null);
  app.addHook('onRequest', async (request, reply) => {
    clientErrors.watch(reply.raw);
    setCommonHeaders(request, reply, deps.config);
  });
  app.addHook('onClose', () => access.close());
  app.addHook('onResponse', async (request, reply) => logAnswer(metrics, request, reply));

  app.addHook('preValidation', rejectUnreadBody);

  answerEveryRequest(app, clientErrors.handle);
  closeIdleConnections(app, tls !== undefined);

  const guard = createMethodGuard(app);
  app.addHook('onRequest', (request, reply) =>
    withinLimit(request, reply, async () => {
      closeAfterUpgrade(request, reply);
      ignoreRange(request);
      if (isApi(request) || request.routeOptions.config.scope !== undefined)
        await authenticate(authentication, request, reply);
      else checkHost(request, reply);
      checkQuery(request);
      // Rejected in a hook, so the body of an unrouted request is never read.
      if (guard.isUnrouted(request)) return guard.reject(request, reply);
      await untilTransfersShown(deps.commands, request);
    }),
  );

  const idempotencyKeys = createIdempotencyKeys(deps.sql);
  const commands = { ...deps.commands, store: limitAppends(deps.commands.store) };
  void app.register(
    routes({ ...deps, commands, requestAdmission, people, access, idempotencyKeys }),
  );
  return app;
}

interface RouteDeps extends HttpServerDeps, IdempotencyDeps {
  requestAdmission: RequestAdmission;
  people: People;
  access: AccessRecorder;
}

function routes(deps: RouteDeps): FastifyPluginAsync {
  const whileAllowed = createWhileAllowed(deps);
  const api: FastifyPluginAsync = async (app) => {
    await app.register(openApiRoute);
    await app.register(sessionRoutes(deps));
    await app.register(oidcRoutes(deps));
    await app.register(transferRoutes({ ...deps, whileAllowed }));
    await app.register(transferChangeRoutes(deps));
    await app.register(batchRoutes(deps));
    await app.register(batchChangeRoutes(deps));
    await app.register(flowRoutes(deps));
    await app.register(flowChangeRoutes(deps));
    await app.register(flowRunRoutes(deps));
    await app.register(webhookRoutes(deps));
    await app.register(webhookChangeRoutes(deps));
    await app.register(deliveryRoutes(deps));
    await app.register(receiptRoutes(deps));
    await app.register(auditRoutes({ ...deps, whileAllowed }));
    await app.register(signingRoutes(deps));
    await app.register(checkpointRoutes(deps));
    await app.register(operatorRoutes(deps));
  };
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
    const live = { ...deps, closing: closing.signal, openStreams: new Map() };
    await app.register(endpointRoutes(deps));
    await app.register(endpointChangeRoutes(deps));
    await app.register(endpointServerRoutes(deps));
    await app.register(keyRoutes(deps));
    await app.register(operatorDeliveryRoutes(deps));
    await app.register(operatorTransferRoutes(live));
    await app.register(projectionRoutes(live));
    await app.register(operationRoutes(deps));
  };
}

function setCommonHeaders(
  request: FastifyRequest,
  reply: FastifyReply,
  { publicUrl }: HttpServerDeps['config'],
): void {
  void reply.headers({
    'x-request-id': request.id,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  });
  if (isHttps(publicUrl)) void reply.header('strict-transport-security', HTTPS_ONLY);
  if (isApi(request))
    void reply.headers({
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    });
}

function answerProblem(problem: Problem, reply: FastifyReply): void {
  if (problem.status === 415)
    void reply.headers({ accept: 'application/json', 'accept-encoding': 'identity' });
  if (problem.status === 401) void reply.header('www-authenticate', 'Bearer');
  const retryAfter = RETRY_SECONDS[problem.code];
  if (retryAfter !== undefined) void reply.header('retry-after', String(retryAfter));
  void reply.code(problem.status).type(PROBLEM_TYPE).serializer(JSON.stringify).send(problem);
}

/**
 * Logs a stack for faults of the service only. A failed endpoint or an unavailable store is logged
 * with its reason.
 */
function logFailure(error: unknown, { code, status }: Problem, request: FastifyRequest): void {
  const fields = { path: safePath(request.url), code };
  if (status === 500) request.log.error({ err: error, ...fields }, 'a request failed');
  else request.log.warn({ reason: reasonOf(error), ...fields }, 'a request failed');
}
