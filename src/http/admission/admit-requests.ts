import type { FastifyInstance } from 'fastify';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { REMEMBERED_MS } from '../../commands/catalog.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { lostAccess, stillValid } from '../auth/still-valid.ts';
import { untilTransfersShown } from '../own-writes.ts';
import { createMethodGuard } from '../requests/methods.ts';
import { isApi } from '../requests/path.ts';
import { checkHead, checkQuery, closeAfterUpgrade, ignoreRange } from '../requests/protocol.ts';
import { withinLimit } from '../requests/time-limit.ts';
import { type AuthenticationDeps, authenticate } from './authenticate.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** When its client was found, by `performance.now()`. */
    admittedAt: number;
  }
}

/**
 * Admits each request before its handler: finds its client, counts it, rejects malformed and
 * unrouted ones, and waits for what it is about to read. After a slow body, it looks up again
 * whether the client still has access. Call it before the routes are registered.
 */
export function admitRequests(
  app: FastifyInstance,
  authentication: AuthenticationDeps,
  { sql, commands }: { sql: Sql; commands: CommandDeps },
): void {
  app.decorateRequest('client', null);
  app.decorateRequest('counted', null);
  app.decorateRequest('queue', null);
  app.decorateRequest('unshown', null);
  app.decorateRequest('keyRow', null);
  app.decorateRequest('admittedBy', 'postgres');
  app.decorateRequest('condition', null);
  app.decorateRequest('admittedAt', 0);
  const guard = createMethodGuard(app);
  app.addHook('onRequest', (request, reply) =>
    withinLimit(request, reply, async () => {
      closeAfterUpgrade(request, reply);
      ignoreRange(request);
      if (isApi(request) || request.routeOptions.config.scope !== undefined)
        await authenticate(authentication, request, reply);
      else checkHead(request, reply);
      request.admittedAt = performance.now();
      checkQuery(request);
      // Rejected in a hook, so the body of an unrouted request is never read.
      if (guard.isUnrouted(request)) return guard.reject(request, reply);
      await untilTransfersShown(commands, request);
    }),
  );
  // A client could hold back its body until its key is revoked. The revocation promises that no
  // request has the key's rights after it.
  app.addHook('preValidation', async (request, reply) => {
    const { client } = request;
    if (client === null || request.routeOptions.config.open) return;
    if (performance.now() - request.admittedAt <= REMEMBERED_MS) return;
    await withinLimit(request, reply, async () => {
      if (!(await stillValid(sql, client))) throw lostAccess(client);
    });
  });
}
