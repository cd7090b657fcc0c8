import type { FastifyRequest } from 'fastify';

/**
 * Returns where a request comes from, by headers that browsers set and pages cannot forge. Returns
 * `unknown` if the request has none of them, because no browser sent it, for example.
 */
export function originOf({ headers, host }: FastifyRequest): 'same' | 'other' | 'unknown' {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' ? 'same' : 'other';
  if (headers.origin === undefined) return 'unknown';
  return URL.parse(headers.origin)?.host === host ? 'same' : 'other';
}
