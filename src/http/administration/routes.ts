import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Logger } from 'pino';
import type { Vault } from '../../adapters/vault.ts';
import type { Config } from '../../config.ts';
import type { Health } from '../health.ts';
import type { TransferRoutesDeps } from '../transfers/routes.ts';
import { endpointRoutes } from './endpoint-routes.ts';
import { keyRoutes } from './key-routes.ts';
import { operationRoutes } from './operation-routes.ts';
import { projectionRoutes } from './projection-routes.ts';
import { transferAdministration } from './transfer-routes.ts';

export interface AdministrationDeps extends TransferRoutesDeps {
  vault: Vault;
  logger: Logger;
  health: Health;
  /** How often a stream of events that has nothing to tell says so. */
  heartbeatMs?: number | undefined;
  config: Pick<Config, 'allowUnlimitedKeys'>;
}

/** What operators do and see, over the whole installation: every route needs the scope `admin`. */
export function administrationRoutes(deps: AdministrationDeps): FastifyPluginAsyncZod {
  return async (app) => {
    const closing = new AbortController();
    // Before the server waits for the requests under way: some would never end.
    app.addHook('preClose', async () => closing.abort());
    await app.register(endpointRoutes(deps));
    await app.register(keyRoutes(deps));
    const live = { ...deps, closing: closing.signal };
    await app.register(transferAdministration(live));
    await app.register(projectionRoutes(live));
    await app.register(operationRoutes(deps));
  };
}
