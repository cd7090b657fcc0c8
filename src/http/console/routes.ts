import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyPluginAsync } from 'fastify';
import { DomainError } from '../../domain/errors.ts';
import { NOTHING_HERE } from '../problems.ts';

const BUILT = join(import.meta.dirname, '..', '..', '..', 'dist', 'console');

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/**
 * Serves the Admin Console. Browsers keep its assets for a year, because their names contain
 * hashes. Every address of a page gets the same HTML file.
 */
export const consoleRoutes: FastifyPluginAsync = async (app) => {
  await app.register(fastifyStatic, { root: BUILT, serve: false, acceptRanges: false });

  app.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/console'));

  app.get<{ Params: { file: string } }>(
    '/console/assets/:file',
    { schema: { hide: true } },
    async (request, reply) => {
      const { file } = request.params;
      if (basename(file) !== file || !existsSync(join(BUILT, 'assets', file)))
        throw new DomainError('not_found', NOTHING_HERE);
      return reply.sendFile(`assets/${file}`, { maxAge: '365d', immutable: true });
    },
  );

  for (const url of ['/console', '/console/*']) {
    app.get(url, { schema: { hide: true } }, async (_request, reply) => {
      if (!existsSync(join(BUILT, 'index.html')))
        throw new DomainError(
          'not_found',
          'The console is not built: run `bin/node scripts/set-up.ts`, which reports the reason',
        );
      return reply
        .headers({ 'content-security-policy': POLICY, 'cross-origin-opener-policy': 'same-origin' })
        .sendFile('index.html', { cacheControl: false })
        .header('cache-control', 'no-cache');
    });
  }
};
