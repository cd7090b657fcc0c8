import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { deliveryAdministration } from './delivery-routes.ts';
import type { AdministrationDeps } from './deps.ts';
import { endpointRoutes } from './endpoint-routes.ts';
import { endpointServerRoutes } from './endpoint-server-routes.ts';
import { keyRoutes } from './key-routes.ts';
import { operationRoutes } from './operation-routes.ts';
import { projectionRoutes } from './projection-routes.ts';
import { transferAdministration } from './transfer-routes.ts';

/** Routes for operators. With the scope `admin`, they act across the whole installation. */
export function administrationRoutes(deps: AdministrationDeps): FastifyPluginAsyncZod {
  return async (app) => {
    const closing = new AbortController();
    // Before the server waits for running requests: event streams would never end.
    app.addHook('preClose', async () => closing.abort());
    await app.register(endpointRoutes(deps));
    await app.register(endpointServerRoutes(deps));
    await app.register(keyRoutes(deps));
    await app.register(deliveryAdministration(deps));
    const live = { ...deps, closing: closing.signal };
    await app.register(transferAdministration(live));
    await app.register(projectionRoutes(live));
    await app.register(operationRoutes(deps));
  };
}
