import cookie from '@fastify/cookie';
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
import { newId } from '../domain/ids.ts';
import type { AdministrationDeps } from './administration/deps.ts';
import { administrationRoutes } from './administration/routes.ts';
import { auditRoutes } from './audit/routes.ts';
import { authenticate } from './auth.ts';
import { acceptJson, BODY_LIMIT } from './body.ts';
import { answerClientError } from './client-error.ts';
import { closeIdleConnections } from './closing.ts';
import { consoleRoutes } from './console/routes.ts';
import { type Health, healthRoutes } from './health.ts';
import { logAnswer, safePath } from './log.ts';
import { createMethodGuard } from './methods.ts';
import { createHttpMetrics, metricsRoute } from './metrics.ts';
import { describeApi, openApiRoute } from './openapi.ts';
import { isApi } from './path.ts';
import { PROBLEM_TYPE, toProblem, UNAVAILABLE_RETRY_SECONDS } from './problems.ts';
import { createRateLimiter } from './rate-limit.ts';
import { sessionRoutes } from './session/routes.ts';
import { transferRoutes } from './transfers/routes.ts';
import { refuseUnreadBody, validatorCompiler } from './validation.ts';
import { deliveryRoutes } from './webhooks/delivery-routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

/** Within this a request has to arrive. */
const REQUEST_TIMEOUT_MS = 30_000;

export interface HttpServerDeps extends AdministrationDeps {
  sql: Sql;
  /** Its commits are on disk a moment later. */
  derived: Sql;
  logger: Logger;
  /** Requests per minute and key. */
  rateLimit: number;
  /** Addresses or networks whose X-Forwarded-For is believed. */
  trustedProxies: string[];
  tls?: { cert: string | Buffer; key: string | Buffer } | undefined;
  health: Health;
  metrics: Registry;
}

/** The HTTP server: API, documentation, health and metrics. Call `listen` on it, and `close`, which lets running requests end. */
export function createHttpServer(deps: HttpServerDeps): FastifyInstance {
  const { logger, tls, trustedProxies } = deps;
  const rateLimiter = createRateLimiter(deps.derived, deps.rateLimit);
  const metrics = createHttpMetrics(deps.metrics);
  const app: FastifyInstance = Fastify({
    ...(tls && { https: tls }),
    loggerInstance: logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: () => newId('req'),
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT_MS,
    trustProxy: trustedProxies.length > 0 ? trustedProxies : false,
    // While it closes, what still comes in on open connections is answered as ever.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => void answerClientError(rateLimiter, error, socket),
    frameworkErrors: (error, request, reply) => void answerFrameworkError(error, request, reply),
  });

  async function answerFrameworkError(error: Error, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    setCommonHeaders(request, reply);
    // Hooks do not run for these.
    reply.raw.once('finish', () => logAnswer(metrics, request, reply));
    const refusal = isApi(request) ? await authenticate(rateLimiter, request, reply).catch((reason: unknown) => reason) : undefined;
    answerError(refusal ?? error, request, reply);
  }

  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler(answerError);
  acceptJson(app);
  void app.register(cookie, { hook: false });
  app.decorateRequest('client', null);
  app.addHook('onRequest', async (request, reply) => setCommonHeaders(request, reply));
  app.addHook('onResponse', async (request, reply) => logAnswer(metrics, request, reply));

  app.addHook('preValidation', refuseUnreadBody);

  closeIdleConnections(app, tls !== undefined);

  const guard = createMethodGuard(app);
  app.addHook('onRequest', async (request, reply) => {
    if (isApi(request) || request.routeOptions.config.scope !== undefined) await authenticate(rateLimiter, request, reply);
    // Here and not in a handler: the body of such a request is nobody's business.
    if (request.is404) return guard.refuse(request, reply);
  });

  void app.register(routes(deps));
  return app;
}

function routes(deps: HttpServerDeps): FastifyPluginAsync {
  const api: FastifyPluginAsync = async (app) => {
    await app.register(openApiRoute);
    await app.register(sessionRoutes(deps));
    await app.register(transferRoutes(deps));
    await app.register(webhookRoutes(deps));
    await app.register(deliveryRoutes(deps));
    await app.register(auditRoutes(deps));
    await app.register(administrationRoutes(deps));
  };
  return async (app) => {
    await describeApi(app);
    await app.register(api, { prefix: '/v1' });
    await app.register(consoleRoutes);
    await app.register(healthRoutes(deps.health));
    await app.register(metricsRoute(deps.metrics));
  };
}

function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  void reply.headers({ 'x-request-id': request.id, 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
  if (isApi(request))
    void reply.headers({ 'cache-control': 'no-store', 'content-security-policy': "default-src 'none'; frame-ancestors 'none'" });
}

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const problem = toProblem(error, request.id);
  if (problem.status >= 500) request.log.error({ err: error, path: safePath(request.url), code: problem.code }, 'a request failed');
  if (problem.status === 401) void reply.header('www-authenticate', 'Bearer');
  if (problem.code === 'unavailable') void reply.header('retry-after', String(UNAVAILABLE_RETRY_SECONDS));
  void reply.code(problem.status).type(PROBLEM_TYPE).serializer(JSON.stringify).send(problem);
}
