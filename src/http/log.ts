import type { FastifyReply, FastifyRequest } from 'fastify';
import type { HttpMetrics } from './metrics.ts';
import { pathOf } from './requests/path.ts';

/** Logs one line for a request. Headers and query values are left out: they may contain secrets. */
export function logAnswer(
  metrics: HttpMetrics,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
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
      key_id: request.client?.keyId ?? undefined,
      account_id: request.client?.accountId,
    },
    'answered',
  );
}

/** Returns the path without its query, and masks text in it that looks like an API key. */
export function safePath(url: string): string {
  return pathOf(url).replace(/wb_[0-9A-Za-z]+/g, 'wb_...');
}
