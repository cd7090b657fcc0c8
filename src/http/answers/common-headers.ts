import type { FastifyReply, FastifyRequest } from 'fastify';
import { isHttps } from '../auth/cookie.ts';
import { isApi } from '../requests/path.ts';

/** How long browsers use https only. */
const HTTPS_ONLY = 'max-age=31536000';

/** Sets the headers of every answer. */
export function setCommonHeaders(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string | null,
): void {
  void reply.headers({
    'x-request-id': request.id,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  });
  if (isHttps(publicUrl)) void reply.header('strict-transport-security', HTTPS_ONLY);
  if (isApi(request))
    void reply.headers({
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    });
}
