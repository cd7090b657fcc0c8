import type { FastifyRequest } from 'fastify';

/** The path of a request target, which may also be a whole URL (RFC 9112, 3.2.2). */
export function pathOf(url: string): string {
  return url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}

/** True below /v1, whatever the spelling in which the route was found. */
export function isApi(request: FastifyRequest): boolean {
  return /^\/v1(?:\/|$)/.test(request.routeOptions.url ?? pathOf(request.url));
}
