import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';

export interface Readiness {
  ready: boolean;
  /** By name. The route needs no key, so `detail` is public. */
  checks: Record<string, { ok: boolean; detail: string }>;
}

export interface Health {
  ready(): Promise<Readiness>;
}

const live = z.strictObject({ status: z.literal('live') });
const readiness = z
  .strictObject({
    status: z.enum(['ready', 'not_ready']),
    checks: z.record(z.string(), z.strictObject({ ok: z.boolean(), detail: z.string() })),
  })
  .meta({ id: 'Readiness' });

const ready = { content: { 'application/json': { schema: readiness } } };

export function healthRoutes(health: Health): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/health/live',
      schema: {
        operationId: 'isLive',
        summary: 'Check that the process responds',
        tags: ['Service'],
        security: [],
        response: {
          200: {
            description: 'The process responds',
            content: { 'application/json': { schema: live } },
          },
        },
      },
      handler: async () => ({ status: 'live' as const }),
    });

    app.route({
      method: 'GET',
      url: '/health/ready',
      schema: {
        operationId: 'isReady',
        summary: 'Check that the service is ready',
        tags: ['Service'],
        security: [],
        response: {
          200: { description: 'The service is ready', ...ready },
          503: { description: 'The service is not ready; `checks` says why', ...ready },
        },
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
