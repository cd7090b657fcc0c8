import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { responses } from './openapi/documentation.ts';

export interface Readiness {
  ready: boolean;
  /** By name. The route needs no key, so `detail` is public. */
  checks: Record<string, { ok: boolean; detail: string }>;
}

/** Runs the readiness checks of this process. */
export interface ReadinessChecks {
  ready(): Promise<Readiness>;
}

const live = z.strictObject({ status: z.literal('live') }).meta({ id: 'Liveness' });
const readiness = z
  .strictObject({
    status: z.enum(['ready', 'not_ready']).meta({ id: 'ReadinessStatus' }),
    checks: z.record(
      z.string(),
      z.strictObject({ ok: z.boolean(), detail: z.string() }).meta({ id: 'ReadinessCheck' }),
    ),
  })
  .meta({ id: 'Readiness' });

export function healthRoutes(health: ReadinessChecks): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/health/live',
      schema: {
        operationId: 'isLive',
        summary: 'Check that the process responds',
        description: 'Needs no key. It asks neither Postgres nor the event store.',
        tags: ['Service'],
        security: [],
        response: responses({ 200: ['The process responds', live] }, [], ['malformed_request']),
      },
      handler: async () => ({ status: 'live' as const }),
    });

    app.route({
      method: 'GET',
      url: '/health/ready',
      schema: {
        operationId: 'isReady',
        summary: 'Check that the service is ready',
        description: 'Needs no key. While the answer is 503, send requests to another process.',
        tags: ['Service'],
        security: [],
        response: responses(
          {
            200: ['The service is ready', readiness],
            503: ['The service is not ready; `checks` says why', readiness],
          },
          [],
          ['malformed_request'],
        ),
      },
      async handler(_request, reply) {
        const { ready, checks } = await health.ready();
        return reply
          .code(ready ? 200 : 503)
          .send({ status: ready ? 'ready' : 'not_ready', checks });
      },
    });
  };
}
