import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../../adapters/postgres/connect.ts';
import { listen } from '../../../adapters/postgres/listen.ts';
import type { Vault } from '../../../adapters/vault.ts';
import { deliveryRequest } from '../../../adapters/webhooks/delivery-request.ts';
import {
  OwnShortage,
  type SendOutcome,
  type WebhookSender,
} from '../../../adapters/webhooks/send.ts';
import { createBatcher } from '../../../concurrency/batcher.ts';
import { createWakeUp } from '../../../concurrency/wake-up.ts';
import {
  type Attempt,
  type Claim,
  type Clock,
  claimDeliveries,
  LEASE_SECONDS,
  recordAttempts,
  releaseClaims,
} from '../delivery-table/claim.ts';
import { DELIVERIES_CHANNEL } from '../delivery-table/pending.ts';
import { createSecrets } from '../secrets.ts';
import type { Claimed } from './attempted-batch.ts';
import { createConcurrencyLimits, type Done } from './concurrency-limits.ts';
import { type AttemptFirst, createFirstAttempts } from './first-attempts.ts';

/** Interval at which the deliverer polls without a notification. */
const POLL_MS = 500;
const PAUSE_MS = 20;
/**
 * How many ended attempts make a call that records them worthwhile, and how long the first of them
 * waits for the others. Half the places of one webhook are used meanwhile.
 */
const RECORDED_TOGETHER = { gather: { count: 16, ms: 2 } };
/** Releases a claim that has waited longer: an attempt takes up to 10 s, and is then recorded. */
const BEGUN_WITHIN_MS = (LEASE_SECONDS - 20) * 1_000;

const UNSIGNED =
  "not sent: the master key of this installation cannot decrypt the webhook's secret. " +
  'Rotate it (POST /v1/webhooks/{id}/rotate-secret) and configure the new one at the receiver';

export interface DelivererMetrics {
  attempted(outcome: SendOutcome['type'], seconds: number): void;
  ended(status: 'delivered' | 'failed'): void;
}

export interface DelivererDeps {
  /**
   * Its commits may reach the disk a moment later. A crash of Postgres may then lose the last
   * records of attempts, and those deliveries are sent again, as at-least-once allows. A delivery
   * itself is lost only together with the outbox's checkpoint, so the outbox writes it again.
   */
  sql: Sql;
  vault: Vault;
  logger: Logger;
  /** `run` closes it at the end. */
  sender: WebhookSender;
  metrics: DelivererMetrics;
  /** Milliseconds from the end of an attempt to the next. After the last one the delivery fails. */
  retryDelays: readonly number[];
  /** Milliseconds that a shutdown waits for requests under way. */
  graceMs: number;
  clock?: Clock;
}

export interface Deliverer {
  /**
   * Claims due deliveries, sends them and records the outcomes, until the signal aborts. Any number
   * of processes can run it. If a process does not record a claim within its lease, another process
   * sends the delivery again.
   */
  run(): Promise<void>;
  /** For the outbox of the same process. */
  attemptFirst: AttemptFirst;
}

export function createDeliverer(deps: DelivererDeps, signal: AbortSignal): Deliverer {
  const { sql, sender, metrics, retryDelays, logger } = deps;
  const wakeUp = createWakeUp();
  const secrets = createSecrets(deps.vault);
  let closed = false;
  /** A new delivery may be due. */
  let news = true;
  /** A webhook has capacity again. */
  let freed = false;
  /** All places of healthy webhooks were taken at the last look. */
  let exhausted = false;
  let polledAt = 0;
  let shortageLoggedAt = Number.NEGATIVE_INFINITY;
  const underWay = new Map<Claimed, Promise<Done | null>>();
  const limits = createConcurrencyLimits<Claimed>({
    begin,
    release: (claimed) => void release(claimed),
    onCapacity,
  });
  const record = createBatcher(async (attempts: Attempt[]) => {
    await recordAttempts(sql, attempts);
    return attempts.map(() => undefined);
  }, RECORDED_TOGETHER);
  const attemptFirst = createFirstAttempts({ ...deps, limits, release, signal });

  /** Returns the number of new claims. Skips the query if nothing can be due or nothing is free. */
  async function claimMore(): Promise<number> {
    const capacity = limits.capacity();
    const { healthy, unproven, webhooks } = capacity;
    exhausted = healthy === 0;
    const began = performance.now();
    if (began > polledAt + POLL_MS) news = true;
    // Places that came free during the last claim may have been taken by what it claimed.
    freed &&= [...webhooks.values()].some(({ free }) => free > 0);
    if (healthy + unproven === 0 || !(news || freed)) return 0;
    news = false;
    freed = false;
    polledAt = began;
    const { claims, now } = await claimDeliveries(sql, capacity, deps.clock);
    // The capacity may have cut off more due deliveries.
    if (claims.length >= Math.min(healthy || Infinity, unproven || Infinity)) news = true;
    for (const claim of claims)
      limits.add(claim.webhook_id, { ...claim, claimedAt: Date.parse(now), claimedMark: began });
    return claims.length;
  }

  /** Each delivery that is due finds the same, so one line says it for all of them. */
  function noteShortage(reason: string): void {
    if (performance.now() < shortageLoggedAt + LEASE_SECONDS * 1_000) return;
    shortageLoggedAt = performance.now();
    logger.error(
      { reason },
      'this process lacks something that it needs to send deliveries; sending them again in 30 s',
    );
  }

  function begin(claimed: Claimed): Promise<Done | null> {
    const attempted = attempt(claimed).catch((error: unknown) => {
      claimed.first?.attemptAbandoned();
      if (error instanceof OwnShortage) noteShortage(error.message);
      else if (!closed) {
        logger.error(
          { err: error, delivery_id: claimed.id },
          'an attempt of a delivery could not be recorded; sending it again in 30 s',
        );
      }
      return null;
    });
    underWay.set(claimed, attempted);
    return attempted.finally(() => {
      underWay.delete(claimed);
      claimed.first?.claimEnded();
    });
  }

  /**
   * Makes and records an attempt. It occupies its place until it is recorded or in the batch that
   * records it. So a crash can duplicate at most as many deliveries as a webhook has places, and
   * those of the two batches of the outbox that were not saved.
   */
  async function attempt(claimed: Claimed): Promise<Done | null> {
    const { url, event_id, body, claimedAt, claimedMark, first } = claimed;
    const startMark = performance.now();
    const waited = startMark - claimedMark;
    if (waited > BEGUN_WITHIN_MS || first?.isBatchLost()) {
      await release([claimed]);
      return null;
    }
    const began = claimedAt + waited;
    const signing = await secrets.of(claimed, began);
    const outcome: SendOutcome =
      signing === null
        ? { type: 'error', durationMs: 0, error: UNSIGNED }
        : await sender.send(deliveryRequest({ url, event_id, body, at: began }, signing));
    // With the body of the answer, which `durationMs` leaves out.
    const tookMs = performance.now() - startMark;
    const next = nextOf(claimed, outcome, began + outcome.durationMs, retryDelays);
    await save(claimed, { claim: claimed, at: new Date(began).toISOString(), outcome, next });
    metrics.attempted(outcome.type, outcome.durationMs / 1_000);
    if (next.status !== 'pending') metrics.ended(next.status);
    return { delivered: outcome.type === 'delivered', tookMs };
  }

  async function save({ first }: Claimed, attempt: Attempt): Promise<void> {
    if (first?.attemptEnded(attempt)) return;
    // Also if it seems not to be saved: the answer of Postgres may have been lost.
    await first?.saveEnded;
    await record(attempt);
  }

  /** Releases claims. If that fails, their leases expire. */
  async function release(claimed: Claimed[]): Promise<void> {
    const saved = claimed.filter(({ first }) => !first?.attemptAbandoned());
    await Promise.all(saved.map(({ first }) => first?.saveEnded));
    if (saved.length > 0) await releaseClaims(sql, saved).catch(() => undefined);
    for (const { first } of saved) first?.claimEnded();
  }

  function onNews(): void {
    news = true;
    wakeUp.wake();
  }

  function onCapacity({ first }: Claimed, isIdle: boolean): void {
    // Nothing else of a webhook was due when its first attempts began.
    if (first && !isIdle && !exhausted) return;
    freed = true;
    wakeUp.wake();
  }

  async function run(): Promise<void> {
    const unlisten = listen(sql, DELIVERIES_CHANNEL, onNews, onNews);
    signal.addEventListener('abort', wakeUp.wake);
    while (!signal.aborted) {
      const began = performance.now();
      const claimed = await claimMore().catch((error: unknown) => {
        logger.error({ err: error }, 'deliveries could not be claimed; retrying in 0.5 s');
        news = true;
        return 0;
      });
      if (claimed === 0) await wakeUp.wait(POLL_MS);
      // Pauses as long as the claim took: deliveries and places that come meanwhile share a query.
      else await sleep(Math.min(performance.now() - began, PAUSE_MS));
    }

    await release(limits.drain());
    const all = Promise.all(underWay.values());
    await Promise.race([all, sleep(deps.graceMs, undefined, { ref: false })]);
    closed = true;
    const left = [...underWay.keys()];
    await sender.close();
    await all;
    // An attempt that was recorded meanwhile has no claim any more.
    await release(left);
    unlisten();
  }

  return { run, attemptFirst };
}

function nextOf(
  { tries }: Claim,
  { type }: SendOutcome,
  endedAt: number,
  delays: readonly number[],
): Attempt['next'] {
  if (type === 'delivered') return { status: 'delivered' };
  const delay = delays[tries];
  return delay === undefined
    ? { status: 'failed' }
    : { status: 'pending', dueAt: new Date(endedAt + delay).toISOString() };
}
