import { setTimeout as sleep } from 'node:timers/promises';
import type { Vault } from '../adapters/vault.ts';
import { announceKeyExpiry } from '../commands/keys.ts';
import { newId } from '../domain/ids.ts';
import { EXPIRING_SOON_MS } from '../domain/key.ts';
import { recordsInUse } from '../projections/catalog-queries.ts';
import { type ConsumerDeps, isCaughtUp } from '../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../projections/read-models.ts';
import { takeSample } from './operations.ts';
import { purgeDeliveries } from './webhooks/purge.ts';

const EVERY_MS = 60_000;
/** For Postgres and for readers alike: how long a repetition of a request finds the first one's answer. */
export const IDEMPOTENCY_KEYS_KEPT = '24 hours';
const CONSOLE_SESSIONS_KEPT = '24 hours';
const ACTOR = 'system:monitor';

export interface HousekeepingDeps extends ConsumerDeps {
  vault: Vault;
}

/**
 * Every minute, in one process of the installation: announces keys that expire soon, and removes what
 * has had its time. Runs until the signal aborts.
 */
export async function runHousekeeping(deps: HousekeepingDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const held = await deps.locks.acquire('housekeeping', signal).catch(() => null);
    if (!held) return;
    const stop = AbortSignal.any([signal, held.signal]);
    while (!stop.aborted) {
      for (const [step, run] of Object.entries(STEPS)) {
        await run(deps).catch((error: unknown) =>
          deps.logger.error({ err: error, step }, 'housekeeping failed; it tries again in a minute'),
        );
      }
      await sleep(EVERY_MS, undefined, { signal: stop }).catch(() => undefined);
    }
    await held.release();
  }
}

/** Each for itself: one that fails holds up none of the others. */
const STEPS: Record<string, (deps: HousekeepingDeps) => Promise<unknown>> = {
  sample: ({ sql }) => takeSample(sql),
  idempotency_keys: ({ sql }) => sql`delete from work.idempotency_keys where created_at < now() - ${IDEMPOTENCY_KEYS_KEPT}::interval`,
  console_sessions: ({ sql }) => sql`delete from work.console_sessions where used_at < now() - ${CONSOLE_SESSIONS_KEPT}::interval`,
  rate_windows: ({ sql }) => sql`delete from work.rate_windows where started < extract(epoch from now()) - 120`,
  movers: ({ sql }) => sql`delete from work.movers where seen_at < now() - interval '1 hour'`,
  deliveries: ({ sql }) => purgeDeliveries(sql),
  vault: sweepVault,
  expiring_keys: announceExpiringKeys,
};

async function sweepVault(deps: HousekeepingDeps): Promise<void> {
  // While the catalog is made anew it names nothing yet, and what nobody names is deleted for good.
  if (!(await isCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog)))) return;
  await deps.vault.sweep((recordIds) => recordsInUse(deps.sql, recordIds));
}

async function announceExpiringKeys({ sql, store, logger }: HousekeepingDeps): Promise<void> {
  const expiring = await sql<{ key_id: string }[]>`
    select key_id from read.keys
     where revoked_at is null and not (state ->> 'announced')::boolean
       and expires_at > now() and expires_at <= now() + ${EXPIRING_SOON_MS} * interval '1 millisecond'`;
  for (const { key_id } of expiring) {
    await announceKeyExpiry({ store }, key_id, { actor: ACTOR, correlationId: newId('req') }).catch((error: unknown) =>
      logger.error({ err: error, key_id }, 'that a key expires soon could not be announced; it is tried again in a minute'),
    );
  }
}
