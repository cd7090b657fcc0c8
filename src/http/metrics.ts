import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { Histogram, type Registry } from 'prom-client';
import { z } from 'zod';
import { responses } from './documentation.ts';

export interface HttpMetrics {
  observe(request: { method: string; route: string; status: number; seconds: number }): void;
}

/** Registers the HTTP metrics, or finds those that were registered there before. */
export function createHttpMetrics(registry: Registry): HttpMetrics {
  const name = 'waybill_http_request_duration_seconds';
  const known = registry.getSingleMetric(name) as Histogram<'method' | 'route' | 'status'> | undefined;
  const durations =
    known ?? new Histogram({ name, help: 'Time to answer a request', labelNames: ['method', 'route', 'status'], registers: [registry] });
  return {
    observe({ method, route, status, seconds }) {
      durations.observe({ method, route, status }, seconds);
    },
  };
}

export function metricsRoute(registry: Registry): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/metrics',
      config: { scope: 'metrics:read' },
      schema: {
        operationId: 'getMetrics',
        summary: 'Read the metrics, in the text format of Prometheus',
        tags: ['Service'],
        response: responses({ 200: ['The metrics of this process', z.string(), 'text/plain'] }, []),
      },
      handler: async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()),
    });
  };
}
