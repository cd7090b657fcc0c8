import type { FastifyRequest } from 'fastify';
import { fieldError } from '../domain/errors.ts';

/** The Idempotency-Key of a request, and the route that it holds for. */
export interface KeyOfRequest {
  route: string;
  key: string;
}

/** Returns null for a request without a key. Throws `invalid_parameter` for a key of another form. */
export function readIdempotencyKey(request: FastifyRequest): KeyOfRequest | null {
  const values = request.raw.headersDistinct['idempotency-key'];
  if (values === undefined) return null;
  if (!isKey(values))
    throw fieldError(
      'Idempotency-Key',
      'must be given once, with 1 to 255 printable ASCII characters',
      'invalid_parameter',
    );
  return { route: routeOf(request), key: values[0] };
}

/** Returns the key before the request is validated. Null for a key that no route can use. */
export function findIdempotencyKey(request: FastifyRequest): KeyOfRequest | null {
  const values = request.raw.headersDistinct['idempotency-key'] ?? [];
  if (request.method !== 'POST' || request.is404 || !isKey(values)) return null;
  return { route: routeOf(request), key: values[0] };
}

function isKey(values: string[]): values is [string] {
  return values.length === 1 && /^[\x20-\x7e]{1,255}$/.test(values[0] as string);
}

/** Returns the route with the values of its parameters, the same for every spelling of the path. */
function routeOf({ method, routeOptions, params }: FastifyRequest): string {
  return [
    method,
    routeOptions.url,
    ...Object.values(params as Record<string, string>).map(encodeURIComponent),
  ].join(' ');
}
