import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import type { Outcome, WebhookSender } from '../../adapters/webhooks/send.ts';
import { signatureHeaders } from '../../adapters/webhooks/signature.ts';
import { createBatcher } from '../../batcher.ts';
import { createBell } from '../../bell.ts';
import { type Attempt, type Claim, type Clock, claimDeliveries, recordAttempts, releaseClaims } from './claims.ts';
import { createLanes } from './lanes.ts';
import { DELIVERIES_CHANNEL } from './queue.ts';
import { createSecrets } from './secrets.ts';

const LOOK_MS = 500;

export interface DelivererMetrics {
  attempted(outcome: Outcome['type'], seconds: number): void;
  ended(status: 'delivered' | 'failed'): void;
}

export interface DelivererDeps {
  sql: Sql;
  vault: Vault;
  logger: Logger;
  /** Closed at the end. */
  sender: WebhookSender;
  metrics: DelivererMetrics;
  /** Milliseconds from the end of an attempt to the next; when they are used up, the delivery has failed. */
  retryDelays: readonly number[];
  /** How long a shutdown waits for requests under way, in milliseconds. */
  graceMs: number;
  clock?: Clock;
}

/**
 * Claims deliveries that are due, sends them, and records what came of it, until the signal aborts. Any
 * number of processes may; a claim that was not recorded before its lease ran out is sent again by another.
 */
export async function runDeliverer(deps: DelivererDeps, signal: AbortSignal): Promise<void> {
  const { sql, sender, metrics, retryDelays, logger } = deps;
  const bell = createBell();
  const lanes = createLanes();
  const secrets = createSecrets(deps.vault);
  const cut = new AbortController();
  const underWay = new Map<Claim, Promise<void>>();
  const record = createBatcher(async (attempts: Attempt[]) => {
    await recordAttempts(sql, attempts);
    return attempts.map(() => undefined);
  });

  async function claimMore(): Promise<number> {
    const room = lanes.room();
    if (room.total === 0) return 0;
    const began = performance.now();
    const { claims, now } = await claimDeliveries(sql, room, deps.clock);
    const time = () => Date.parse(now) + performance.now() - began;
    for (const claim of claims) {
      lanes.enter(claim.webhook_id);
      underWay.set(
        claim,
        attempt(claim, time)
          .then(
            (arrived) => lanes.leave(claim.webhook_id, arrived),
            (error: unknown) => {
              lanes.leave(claim.webhook_id, false);
              if (cut.signal.aborted) return;
              logger.error(
                { err: error, delivery_id: claim.id },
                'an attempt to deliver was not recorded; it is made again in half a minute',
              );
            },
          )
          .finally(() => {
            underWay.delete(claim);
            // There is room again, and the next event of its transfer may go.
            bell.ring();
          }),
      );
    }
    return claims.length;
  }

  /** True where it has arrived. */
  async function attempt(claim: Claim, time: () => number): Promise<boolean> {
    const { url, event_id, body } = claim;
    const signing = await secrets.of(claim, time());
    const began = time();
    const headers = signatureHeaders(signing, event_id, Math.floor(began / 1_000), body);
    const outcome = await sender.send({ url, headers, body }, cut.signal);
    const next = nextOf(claim, outcome, began + outcome.durationMs, retryDelays);
    await record({ claim, at: new Date(began).toISOString(), outcome, next });
    metrics.attempted(outcome.type, outcome.durationMs / 1_000);
    if (next.status !== 'pending') metrics.ended(next.status);
    return outcome.type === 'delivered';
  }

  const listening = await sql.listen(DELIVERIES_CHANNEL, bell.ring, bell.ring);
  signal.addEventListener('abort', bell.ring);
  while (!signal.aborted) {
    const claimed = await claimMore().catch((error: unknown) => {
      logger.error({ err: error }, 'deliveries could not be claimed; it tries again');
      return 0;
    });
    if (claimed === 0) await bell.wait(LOOK_MS);
  }

  const all = Promise.all(underWay.values());
  await Promise.race([all, sleep(deps.graceMs, undefined, { ref: false })]);
  const left = [...underWay.keys()];
  cut.abort();
  await all;
  if (left.length > 0) await releaseClaims(sql, left).catch(() => undefined);
  await sender.close();
  await listening.unlisten().catch(() => undefined);
}

function nextOf({ tries }: Claim, { type }: Outcome, endedAt: number, delays: readonly number[]): Attempt['next'] {
  if (type === 'delivered') return { status: 'delivered' };
  const delay = delays[tries];
  return delay === undefined ? { status: 'failed' } : { status: 'pending', dueAt: new Date(endedAt + delay).toISOString() };
}
