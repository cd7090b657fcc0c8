import type { FastifyInstance } from 'fastify';
import type { CommandDeps } from '../../commands/deps.ts';
import { untilTransfersShown } from '../own-writes.ts';
import { createMethodGuard } from '../requests/methods.ts';
import { isApi } from '../requests/path.ts';
import { checkHost, checkQuery, closeAfterUpgrade, ignoreRange } from '../requests/protocol.ts';
import { withinLimit } from '../requests/time-limit.ts';
import { type AuthenticationDeps, authenticate } from './authenticate.ts';

/**
 * Admits each request before its handler: finds its client, counts it, rejects malformed and
 * unrouted ones, and waits for what it is about to read. Call it before the routes are registered.
 */
export function admitRequests(
  app: FastifyInstance,
  authentication: AuthenticationDeps,
  commands: CommandDeps,
): void {
  app.decorateRequest('client', null);
  app.decorateRequest('counted', null);
  app.decorateRequest('queue', null);
  app.decorateRequest('unshown', null);
  app.decorateRequest('keyRow', null);
  app.decorateRequest('admittedBy', 'postgres');
  app.decorateRequest('condition', null);
  const guard = createMethodGuard(app);
  app.addHook('onRequest', (request, reply) =>
    withinLimit(request, reply, async () => {
      closeAfterUpgrade(request, reply);
      ignoreRange(request);
      if (isApi(request) || request.routeOptions.config.scope !== undefined)
        await authenticate(authentication, request, reply);
      else checkHost(request, reply);
      checkQuery(request);
      // Rejected in a hook, so the body of an unrouted request is never read.
      if (guard.isUnrouted(request)) return guard.reject(request, reply);
      await untilTransfersShown(commands, request);
    }),
  );
}
