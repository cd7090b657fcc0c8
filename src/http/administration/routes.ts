import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Vault } from '../../adapters/vault.ts';
import type { Config } from '../../config.ts';
import type { TransferRoutesDeps } from '../transfers/routes.ts';
import { endpointRoutes } from './endpoint-routes.ts';
import { keyRoutes } from './key-routes.ts';

export interface AdministrationDeps extends TransferRoutesDeps {
  vault: Vault;
  config: Pick<Config, 'allowUnlimitedKeys'>;
}

/** What operators do and see, over the whole installation: every route needs the scope `admin`. */
export function administrationRoutes(deps: AdministrationDeps): FastifyPluginAsyncZod {
  return async (app) => {
    await app.register(endpointRoutes(deps));
    await app.register(keyRoutes(deps));
  };
}
