import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { Counter, Histogram, type Registry } from 'prom-client';
import { z } from 'zod';
import { responses } from './openapi/documentation.ts';

export interface HttpMetrics {
  observe(request: { method: string; route: string; status: number; seconds: number }): void;
}

const STATUS_CLASSES = ['2xx', '3xx', '4xx', '5xx'];

/** Registers the HTTP metrics, or reuses those of an earlier call. */
export function createHttpMetrics(registry: Registry): HttpMetrics {
  const answers = answersOf(registry);
  const name = 'waybill_http_request_duration_seconds';
  const known = registry.getSingleMetric(name) as
    | Histogram<'method' | 'route' | 'status'>
    | undefined;
  const durations =
    known ??
    new Histogram({
      name,
      help: 'Time to answer a request',
      labelNames: ['method', 'route', 'status'],
      registers: [registry],
    });
  return {
    observe({ method, route, status, seconds }) {
      durations.observe({ method, route, status }, seconds);
      answers.inc({ status: `${Math.floor(status / 100)}xx` });
    },
  };
}

/** Creates a counter with few series. They start at 0, so that `rate()` sees the first error. */
function answersOf(registry: Registry): Counter<'status'> {
  const name = 'waybill_http_answers_total';
  const known = registry.getSingleMetric(name) as Counter<'status'> | undefined;
  if (known) return known;
  const answers = new Counter({
    name,
    help: 'Answers to requests, by status class',
    labelNames: ['status'],
    registers: [registry],
  });
  for (const status of STATUS_CLASSES) answers.inc({ status }, 0);
  return answers;
}

const METRICS = z.string().meta({ examples: ['waybill_http_answers_total{status="2xx"} 4711\n'] });

export function metricsRoute(registry: Registry): FastifyPluginAsyncZod {
  return async (app) => {
    app.route({
      method: 'GET',
      url: '/metrics',
      config: { scope: 'metrics:read' },
      schema: {
        operationId: 'getMetrics',
        summary: 'Get the metrics in the Prometheus text format',
        tags: ['Service'],
        response: responses({ 200: ['The metrics of this process', METRICS, 'text/plain'] }, []),
      },
      handler: async (_request, reply) => {
        // Before `send` is looked up: after the time limit, another one drops a late answer.
        const text = await registry.metrics();
        return reply.type(registry.contentType).send(text);
      },
    });
  };
}
