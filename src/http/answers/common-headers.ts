import type { FastifyReply, FastifyRequest } from 'fastify';
import { isHttps } from '../auth/cookie.ts';
import { isApi } from '../requests/path.ts';

/** How long browsers use https only. */
const HTTPS_ONLY = 'max-age=31536000';

/** Returns the headers of every answer, or of every answer of the API. */
export function commonHeaders(
  requestId: string,
  publicUrl: string | null,
  ofApi: boolean,
): Record<string, string> {
  return {
    'x-request-id': requestId,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    ...(isHttps(publicUrl) && { 'strict-transport-security': HTTPS_ONLY }),
    ...(ofApi && {
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    }),
  };
}

/** Sets the headers of every answer. */
export function setCommonHeaders(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string | null,
): void {
  void reply.headers(commonHeaders(request.id, publicUrl, isApi(request)));
}
