import type { FastifyRequest } from 'fastify';

/** Returns the path of a request target, which may also be a whole URL (RFC 9112, 3.2.2). */
export function pathOf(url: string): string {
  return url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}

/** Returns true for a path below /v1, in any spelling that the router accepts. */
export function isApi(request: FastifyRequest): boolean {
  return /^\/v1(?:\/|$)/.test(request.routeOptions.url ?? pathOf(request.url));
}
