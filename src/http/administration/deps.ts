import type { Logger } from 'pino';
import type { Vault } from '../../adapters/vault.ts';
import type { Config } from '../../config.ts';
import type { Health } from '../health.ts';
import type { TransferRoutesDeps } from '../transfers/routes.ts';

/** Dependencies of the routes for operators. */
export interface AdministrationDeps extends TransferRoutesDeps {
  vault: Vault;
  logger: Logger;
  health: Health;
  /** Interval of the heartbeats of a quiet event stream. */
  heartbeatMs?: number | undefined;
  config: Pick<Config, 'allowUnlimitedKeys' | 'checkpointSinks' | 'oidc' | 'publicUrl'>;
}
