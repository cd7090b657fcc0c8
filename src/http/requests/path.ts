import type { FastifyRequest } from 'fastify';

/** Returns the path of a request target, which may also be a whole URL (RFC 9112, 3.2.2). */
export function pathOf(url: string): string {
  return url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}

/**
 * Returns the path as the router compares it: percent-decoded, except for characters such as a
 * slash. Returns a path with an invalid encoding as it is: the router rejects it.
 */
export function routedPathOf(url: string): string {
  const path = pathOf(url);
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** Returns true for a path below /v1, in any spelling that the router accepts. */
export function isApi(request: FastifyRequest): boolean {
  return isApiPath(request.routeOptions.url ?? routedPathOf(request.url));
}

/** Returns true for a routed path below /v1. */
export function isApiPath(path: string): boolean {
  return /^\/v1(?:\/|$)/.test(path);
}
