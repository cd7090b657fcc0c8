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
const PAUSE_MS = 20;
/** A claim that has waited longer for its turn is given back: an attempt may take ten seconds more, and its lease runs. */
const BEGUN_WITHIN_MS = 10_000;

const UNSIGNED =
  "not sent: the webhook's secret does not open with the master key of this installation: rotate it (POST /v1/webhooks/{id}/rotate-secret), and give the new one to the receiver";

/** When it was claimed, by the clock of the claims and by ours. */
type Claimed = Claim & { claimedAt: number; claimedMark: number };

export interface DelivererMetrics {
  attempted(outcome: Outcome['type'], seconds: number): void;
  ended(status: 'delivered' | 'failed'): void;
}

export interface DelivererDeps {
  /**
   * Its commits may be on disk a moment later. A crash of Postgres then takes the last records of attempts, and those
   * deliveries are sent again, as at-least-once allows; a delivery itself goes only together with the outbox's checkpoint.
   */
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
  const secrets = createSecrets(deps.vault);
  let closed = false;
  /** Something may be due of which nobody knows; the lanes have got room for more of what they are at. */
  let [news, freed, lookedAt] = [true, false, 0];
  const underWay = new Map<Claimed, Promise<boolean>>();
  const lanes = createLanes<Claimed>({ begin, giveBack: (claimed) => void release(claimed), onRoom });
  const record = createBatcher(async (attempts: Attempt[]) => {
    await recordAttempts(sql, attempts);
    return attempts.map(() => undefined);
  });

  /** Gives the number of claims. Asks only where there may be something for which there is room. */
  async function claimMore(): Promise<number> {
    const room = lanes.room();
    const began = performance.now();
    if (began > lookedAt + LOOK_MS) news = true;
    if (room.trusted + room.doubted === 0 || !(news || freed)) return 0;
    [news, freed, lookedAt] = [false, false, began];
    const { claims, now } = await claimDeliveries(sql, room, deps.clock);
    // It did not see all that there is.
    if (claims.length >= Math.min(room.trusted || Infinity, room.doubted || Infinity)) news = true;
    for (const claim of claims) lanes.enter(claim.webhook_id, { ...claim, claimedAt: Date.parse(now), claimedMark: began });
    return claims.length;
  }

  function begin(claimed: Claimed): Promise<boolean> {
    const attempted = attempt(claimed).catch((error: unknown) => {
      if (!closed) {
        logger.error({ err: error, delivery_id: claimed.id }, 'an attempt to deliver was not recorded; it is made again in half a minute');
      }
      return false;
    });
    underWay.set(claimed, attempted);
    return attempted.finally(() => underWay.delete(claimed));
  }

  /** True where it has arrived. It is under way until that is recorded: so no more than a lane's places are ever sent twice. */
  async function attempt(claimed: Claimed): Promise<boolean> {
    const { url, event_id, body, claimedAt, claimedMark } = claimed;
    const waited = performance.now() - claimedMark;
    if (waited > BEGUN_WITHIN_MS) {
      await release([claimed]);
      return false;
    }
    const began = claimedAt + waited;
    const signing = await secrets.of(claimed, began);
    const outcome: Outcome =
      signing === null
        ? { type: 'error', durationMs: 0, error: UNSIGNED }
        : await sender.send({ url, headers: signatureHeaders(signing, event_id, Math.floor(began / 1_000), body), body });
    const next = nextOf(claimed, outcome, began + outcome.durationMs, retryDelays);
    await record({ claim: claimed, at: new Date(began).toISOString(), outcome, next });
    metrics.attempted(outcome.type, outcome.durationMs / 1_000);
    if (next.status !== 'pending') metrics.ended(next.status);
    return outcome.type === 'delivered';
  }

  /** Where it fails, their leases end. */
  async function release(claimed: Claimed[]): Promise<void> {
    if (claimed.length > 0) await releaseClaims(sql, claimed).catch(() => undefined);
  }

  function onNews(): void {
    news = true;
    bell.ring();
  }

  function onRoom(): void {
    freed = true;
    bell.ring();
  }

  const listening = await sql.listen(DELIVERIES_CHANNEL, onNews, onNews);
  signal.addEventListener('abort', bell.ring);
  while (!signal.aborted) {
    const began = performance.now();
    const claimed = await claimMore().catch((error: unknown) => {
      logger.error({ err: error }, 'deliveries could not be claimed; it tries again');
      news = true;
      return 0;
    });
    if (claimed === 0) await bell.wait(LOOK_MS);
    // What is enqueued, and what comes free, while it lasts as long again is claimed in one go.
    else await sleep(Math.min(performance.now() - began, PAUSE_MS));
  }

  await release(lanes.empty());
  const all = Promise.all(underWay.values());
  await Promise.race([all, sleep(deps.graceMs, undefined, { ref: false })]);
  closed = true;
  const left = [...underWay.keys()];
  await sender.close();
  await all;
  // What was recorded all the same has no claim any more.
  await release(left);
  await listening.unlisten().catch(() => undefined);
}

function nextOf({ tries }: Claim, { type }: Outcome, endedAt: number, delays: readonly number[]): Attempt['next'] {
  if (type === 'delivered') return { status: 'delivered' };
  const delay = delays[tries];
  return delay === undefined ? { status: 'failed' } : { status: 'pending', dueAt: new Date(endedAt + delay).toISOString() };
}
