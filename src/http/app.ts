import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Sql } from '../adapters/postgres/connect.ts';
import { GIVE_UP_ON_STORES_MS } from '../adapters/unavailable.ts';
import { BODY_LIMIT } from '../contract/body-limits.ts';
import { DomainError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { Queue } from '../processes/dispatch/queue-estimate.ts';
import { createAccessRecorder } from './access-log/recorder.ts';
import { admitRequests } from './admission/admit-requests.ts';
import { rateHeaders } from './admission/rate-limit.ts';
import { createRequestAdmission } from './admission/request-admission.ts';
import { setCommonHeaders } from './answers/common-headers.ts';
import { createErrorAnswers } from './answers/error-answers.ts';
import { closeUnreadAnswers } from './answers/unread-answers.ts';
import { registerCookies } from './auth/cookie.ts';
import { createPeople } from './auth/people.ts';
import { closeIdleConnections } from './closing.ts';
import type { ReadinessChecks } from './health.ts';
import { createIdempotencyKeys } from './idempotency/table.ts';
import { logAnswer } from './log.ts';
import { createHttpMetrics } from './metrics.ts';
import { NOTHING_HERE } from './problems.ts';
import { acceptJson, discardUnreadBodies } from './requests/body.ts';
import { createClientErrorHandler } from './requests/client-error.ts';
import { continueLate } from './requests/expect.ts';
import { answerEveryRequest } from './requests/protocol.ts';
import { limitAppends, limitHandlers } from './requests/time-limit.ts';
import { validateRequests } from './requests/validation.ts';
import type { OperatorRoutesDeps } from './route-deps.ts';
import { routes } from './routes.ts';

/** Time for a whole request to arrive. */
const REQUEST_TIMEOUT_MS = 30_000;
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
  health: ReadinessChecks;
  metrics: Registry;
  /** How often a long answer checks the access of its client. */
  accessCheckMs?: number | undefined;
  /** Exports that a client may have open in this process. */
  maxExports?: number | undefined;
  /** How long records of accesses gather. */
  accessGatherMs?: number | undefined;
  requestTimeoutMs?: number | undefined;
  /** How long a client may take nothing of its answer: 5 minutes by default. */
  unreadMs?: number | undefined;
  /** How long a request may wait for the stores, in all: 15 s by default. */
  answerWithinMs?: number | undefined;
}

/**
 * Creates the HTTP server: API, console, documentation, health and metrics. Its `close` waits for
 * running requests.
 */
export function createHttpServer(deps: HttpServerDeps): FastifyInstance {
  const { publicUrl } = deps.config;
  const requestAdmission = createRequestAdmission(deps.derived, deps.rateLimit, deps);
  const people = createPeople(deps);
  const authentication = { requestAdmission, people };
  const access = createAccessRecorder(deps);
  const metrics = createHttpMetrics(deps.metrics);
  const errors = createErrorAnswers(access, authentication);
  const clientErrors = createClientErrorHandler(async (address) => {
    const { window } = await requestAdmission.admit(null, address);
    return rateHeaders(window);
  });

  const app: FastifyInstance = Fastify({
    ...listenerOptions(deps),
    loggerInstance: deps.logger as FastifyBaseLogger,
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'request_id',
    }),
    genReqId: () => newId('req'),
    // On a machine that is busy, the modules of the routes may take longer than 10 s to load.
    pluginTimeout: 0,
    bodyLimit: BODY_LIMIT,
    trustProxy: deps.trustedProxies.length > 0 ? deps.trustedProxies : false,
    // While the server closes, it still answers requests on open connections.
    return503OnClosing: false,
    clientErrorHandler: clientErrors.handle,
    frameworkErrors(error, request, reply) {
      // Fastify runs no hooks for these errors, and decorates no request with a broken URL.
      clientErrors.watch(reply.raw);
      setCommonHeaders(request, reply, publicUrl);
      reply.raw.once('finish', () => logAnswer(metrics, request, reply));
      request.leftMs = deps.answerWithinMs ?? GIVE_UP_ON_STORES_MS;
      void errors.ofFramework(error, request, reply);
    },
  });

  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler(errors.ofRequest);
  // Of missing files: the method guard rejects unknown paths before.
  app.setNotFoundHandler(() => {
    throw new DomainError('not_found', NOTHING_HERE);
  });
  app.addHook('onRequest', async (request, reply) => {
    clientErrors.watch(reply.raw);
    setCommonHeaders(request, reply, publicUrl);
  });
  app.addHook('onResponse', async (request, reply) => logAnswer(metrics, request, reply));
  app.addHook('onClose', () => access.close());

  closeUnreadAnswers(app, deps.unreadMs);
  limitHandlers(app, deps.answerWithinMs);
  continueLate(app);
  acceptJson(app);
  discardUnreadBodies(app);
  validateRequests(app);
  registerCookies(app, publicUrl);
  answerEveryRequest(app, clientErrors.handle);
  closeIdleConnections(app, deps.tls !== undefined);
  admitRequests(app, authentication, deps);

  const idempotencyKeys = createIdempotencyKeys(deps.sql);
  const commands = { ...deps.commands, store: limitAppends(deps.commands.store) };
  void app.register(
    routes({ ...deps, commands, requestAdmission, people, access, idempotencyKeys }),
  );
  return app;
}

function listenerOptions({ tls, requestTimeoutMs = REQUEST_TIMEOUT_MS }: HttpServerDeps) {
  const http = {
    // `checkHost` answers a missing Host with a problem document.
    requireHostHeader: false,
    // Node swaps the two limits if that of the headers is longer: it is a minute by default.
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  };
  return {
    ...(tls ? { https: { ...tls, ...http, allowHalfOpen: true } } : { http }),
    requestTimeout: requestTimeoutMs,
  };
}
