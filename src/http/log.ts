import type { FastifyReply, FastifyRequest } from 'fastify';
import type { HttpMetrics } from './metrics.ts';
import { pathOf } from './path.ts';

/** One line for every request, with neither headers nor the values of the query: they may hold secrets. */
export function logAnswer(metrics: HttpMetrics, request: FastifyRequest, reply: FastifyReply): void {
  const { method } = request;
  const route = request.routeOptions.url ?? 'none';
  metrics.observe({ method, route, status: reply.statusCode, seconds: reply.elapsedTime / 1000 });
  request.log.info(
    {
      method,
      route,
      path: safePath(request.url),
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime * 10) / 10,
      address: request.ip,
      key_id: request.client?.keyId,
      account_id: request.client?.accountId,
    },
    'answered',
  );
}

/** The path without its query, and without what looks like an API key put there by mistake. */
export function safePath(url: string): string {
  return pathOf(url).replace(/wb_[0-9A-Za-z]+/g, 'wb_...');
}
