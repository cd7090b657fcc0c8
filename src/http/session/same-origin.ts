import type { FastifyRequest } from 'fastify';

/**
 * Where a request comes from, by what browsers say and no page can forge: `unknown` where no browser
 * sent it, or one that says nothing.
 */
export function originOf({ headers, host }: FastifyRequest): 'same' | 'other' | 'unknown' {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' ? 'same' : 'other';
  if (headers.origin === undefined) return 'unknown';
  return URL.parse(headers.origin)?.host === host ? 'same' : 'other';
}
