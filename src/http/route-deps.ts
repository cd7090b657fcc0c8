import type { Logger } from 'pino';
import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql } from '../adapters/postgres/connect.ts';
import type { Vault } from '../adapters/vault.ts';
import type { Config } from '../config.ts';
import type { ReadinessChecks } from './health.ts';
import type { IdempotencyDeps } from './idempotency/idempotency.ts';

/** Dependencies of most routes. */
export interface RoutesDeps extends IdempotencyDeps {
  sql: Sql;
  store: EventStore;
}

/** Dependencies of the routes for operators. */
export interface OperatorRoutesDeps extends RoutesDeps {
  vault: Vault;
  logger: Logger;
  health: ReadinessChecks;
  /** Interval of the heartbeats of a quiet event stream. */
  heartbeatMs?: number | undefined;
  /** Event streams that a client may have open in this process: 500 by default. */
  maxStreams?: number | undefined;
  config: Pick<Config, 'allowUnlimitedKeys' | 'checkpointSinks' | 'oidc' | 'publicUrl'>;
}
