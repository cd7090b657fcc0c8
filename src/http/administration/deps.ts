import type { Logger } from 'pino';
import type { Vault } from '../../adapters/vault.ts';
import type { Config } from '../../config.ts';
import type { Health } from '../health.ts';
import type { TransferRoutesDeps } from '../transfers/routes.ts';

/** What the routes of operators need of the world. */
export interface AdministrationDeps extends TransferRoutesDeps {
  vault: Vault;
  logger: Logger;
  health: Health;
  /** How often a stream of events that has nothing to tell says so. */
  heartbeatMs?: number | undefined;
  config: Pick<Config, 'allowUnlimitedKeys'>;
}
