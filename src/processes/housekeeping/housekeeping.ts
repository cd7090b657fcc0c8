import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import { announceKeyExpiry } from '../../commands/keys.ts';
import { loadSigningKey } from '../../commands/log.ts';
import { pause } from '../../concurrency/pause.ts';
import { EXPIRING_SOON_MS } from '../../domain/attention.ts';
import { newId } from '../../domain/ids.ts';
import { recordsInUse } from '../../projections/catalog/queries.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { isCaughtUp } from '../../projections/read-to-end.ts';
import { removeLostMovers } from '../dispatch/live-movers.ts';
import { forgetRemovedFlows } from '../flows/table.ts';
import { inOneProcess } from '../in-one-process.ts';
import { finishInterrupted } from '../retention/finish.ts';
import { purgeDeliveries } from '../webhooks/delivery-table/purge.ts';
import { failDeliveriesOfRemoved } from '../webhooks/delivery-table/removed-webhooks.ts';
import { takeSample } from './samples.ts';

const EVERY_MS = 60_000;
const ACTOR = 'system:monitor';

/** Functions that remove expired rows, or end their work. The names appear in the log. */
export type Purges = Record<string, (sql: Sql) => Promise<unknown>>;

export interface HousekeepingDeps extends ConsumerDeps {
  vault: Vault;
  /** The purges of tables that the API owns. */
  purges: Purges;
  /** Returns which of these vault records the API's tables name. */
  recordsOfApi(sql: Sql, recordIds: string[]): Promise<string[]>;
}

/**
 * Announces keys that expire soon, removes expired rows, and ends what removed webhooks left, every
 * minute, in one process of the installation. Runs until the signal aborts.
 */
export async function runHousekeeping(deps: HousekeepingDeps, signal: AbortSignal): Promise<void> {
  await inOneProcess(deps.locks, 'housekeeping', signal, async (stop) => {
    while (!stop.aborted) {
      await housekeepOnce(deps, stop);
      await pause(EVERY_MS, stop);
    }
  });
}

/** Runs every step once. Logs a failed step and continues with the next. */
export async function housekeepOnce(deps: HousekeepingDeps, stop: AbortSignal): Promise<void> {
  for (const [step, run] of Object.entries(stepsOf(deps))) {
    if (stop.aborted) return;
    await run(stop).catch((error: unknown) =>
      deps.logger.error({ err: error, step }, 'a step of housekeeping failed; retrying in 60 s'),
    );
  }
}

function stepsOf(deps: HousekeepingDeps): Record<string, (stop: AbortSignal) => Promise<unknown>> {
  const { sql } = deps;
  const purges: Purges = {
    ...deps.purges,
    movers: removeLostMovers,
    flows: forgetRemovedFlows,
    removed_webhooks: failDeliveriesOfRemoved,
    deliveries: purgeDeliveries,
  };
  return {
    sample: () => takeSample(sql),
    ...Object.fromEntries(Object.entries(purges).map(([name, purge]) => [name, () => purge(sql)])),
    retention: () => finishInterrupted(deps),
    vault: (stop) => sweepVault(deps, stop),
    expiring_keys: (stop) => announceExpiringKeys(deps, stop),
  };
}

async function sweepVault(deps: HousekeepingDeps, stop: AbortSignal): Promise<void> {
  // A catalog that is being filled names no record yet. The sweep would delete every record for
  // good.
  const catalog = projectionConsumer(PROJECTIONS.catalog);
  if (!(await isCaughtUp(deps, catalog, { signal: stop }))) return;
  const signingKey = await loadSigningKey(deps.store);
  await deps.vault.sweep(async (recordIds) => [
    ...(signingKey ? [signingKey.key_record] : []),
    ...(await recordsInUse(deps.sql, recordIds)),
    ...(await deps.recordsOfApi(deps.sql, recordIds)),
  ]);
}

async function announceExpiringKeys(
  { sql, store, logger }: HousekeepingDeps,
  stop: AbortSignal,
): Promise<void> {
  const expiring = await sql<{ key_id: string }[]>`
    select key_id from read.keys
     where revoked_at is null and not (state ->> 'announced')::boolean
       and expires_at > now()
       and expires_at <= now() + ${EXPIRING_SOON_MS} * interval '1 millisecond'`;
  for (const { key_id } of expiring) {
    if (stop.aborted) return;
    await announceKeyExpiry({ store }, key_id, { actor: ACTOR, correlationId: newId('req') }).catch(
      (error: unknown) =>
        logger.error(
          { err: error, key_id },
          'could not announce that a key expires soon; retrying in 60 s',
        ),
    );
  }
}
