import type { FastifyRequest } from 'fastify';
import { type DomainError, fieldError } from '../../domain/errors.ts';

/** The Idempotency-Key of a request, and the route that it holds for. */
export interface KeyOfRequest {
  route: string;
  key: string;
}

/**
 * Returns null for a request without a key. Throws `invalid_parameter` for a key of another form.
 */
export function readIdempotencyKey(request: FastifyRequest): KeyOfRequest | null {
  const wrong = wrongIdempotencyKey(request);
  if (wrong !== null) throw wrong;
  return keyOf(request);
}

/** Returns the error for a key of another form, or null. */
export function wrongIdempotencyKey(request: FastifyRequest): DomainError | null {
  if (request.raw.headersDistinct['idempotency-key'] === undefined) return null;
  if (keyOf(request) !== null) return null;
  return fieldError(
    'Idempotency-Key',
    'must be given once, with 1 to 255 printable ASCII characters',
    'invalid_parameter',
  );
}

/** Returns the key before the request is validated. Null for a key that no route can use. */
export function findIdempotencyKey(request: FastifyRequest): KeyOfRequest | null {
  return request.method === 'POST' && !request.is404 ? keyOf(request) : null;
}

function keyOf(request: FastifyRequest): KeyOfRequest | null {
  const [key, ...others] = request.raw.headersDistinct['idempotency-key'] ?? [];
  if (key === undefined || others.length > 0 || !/^[\x20-\x7e]{1,255}$/.test(key)) return null;
  return { route: routeOf(request), key };
}

/** Returns the route with the values of its parameters, the same for every spelling of the path. */
function routeOf({ method, routeOptions, params }: FastifyRequest): string {
  return [
    method,
    routeOptions.url,
    ...Object.values(params as Record<string, string>).map(encodeURIComponent),
  ].join(' ');
}
