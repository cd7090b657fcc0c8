import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { claimTransfers } from '../dispatch/claims.ts';
import { JOBS_CHANNEL } from '../dispatch/job-table/jobs.ts';
import type { Claim } from '../dispatch/job-table/leases.ts';
import { type Catalog, loadCatalog } from '../endpoints/catalog.ts';
import type { EndpointPool } from '../endpoints/pool.ts';
import { untilAnswered } from '../until-answered.ts';
import type { Attempt, AttemptEnd } from './attempt.ts';
import { CUT_OFF_MS, type RunningAttempt } from './leases.ts';
import type { LeftToOthers } from './left-to-others.ts';
import type { Shortage } from './shortage.ts';
import type { Slots } from './slots.ts';

const LOOK_MS = 1_000;
/** A busy mover does not wait for attempts that run longer than this. */
const SMALL_MS = 1_000;
/** How long to wait for more free slots while more than half are taken. */
const GATHER_SLOTS_MS = 15;
/** How long to wait for more due transfers after a claim. */
const GATHER_DUE_MS = 5;
/** Weight of the newest transfer in the mean duration, which estimates use. */
const NEWEST = 0.1;

/** Receives what becomes of claims. Times in seconds. */
export interface ClaimMetrics {
  /** `waited`: from when the transfer was due. */
  claimed(waited: number): void;
  ended(end: AttemptEnd, took: number): void;
}

export interface ClaimLoopDeps {
  sql: Sql;
  logger: Logger;
  metrics: ClaimMetrics;
  processId: string;
  slots: Slots;
  leftToOthers: LeftToOthers;
  shortage: Omit<Shortage, 'note'>;
  /** They close connections to endpoints that the catalog no longer has. */
  pools: EndpointPool[];
  begin(claim: Claim, catalog: Catalog): Attempt;
}

export interface ClaimLoop {
  /** The attempts that run, by claim. */
  attempts: ReadonlyMap<string, RunningAttempt>;
  /** Returns how long an attempt takes; null before the first has ended. */
  meanDurationMs(): number | null;
  /** Returns how many attempts may soon reach the write barrier. 0 if the mover is not busy. */
  countNearBarrier(): number;
  /** Claims due transfers and begins their attempts until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

export function createClaimLoop(deps: ClaimLoopDeps): ClaimLoop {
  const { sql, logger, metrics, processId, slots, leftToOthers, shortage, pools } = deps;
  const attempts = new Map<string, RunningAttempt>();
  const wakeUp = createWakeUp();
  let meanMs: number | null = null;

  /** Returns the number of claims. */
  async function claimSome(signal: AbortSignal): Promise<number> {
    const free = shortage.limit(slots.total - attempts.size);
    if (free <= 0) return 0;
    // Counts from before the call: the lease begins when Postgres carries it out.
    const startedAt = performance.now();
    const claims = await claimTransfers(sql, processId, free, {
      small: slots.small,
      leftToOthers: leftToOthers.now(),
    });
    if (claims.length === 0) return 0;
    shortage.claimed();
    const within = AbortSignal.any([signal, AbortSignal.timeout(CUT_OFF_MS)]);
    const catalog = await untilAnswered(() => loadCatalog(sql), within);
    for (const pool of pools) pool.closeRemoved(catalog.endpoints);
    for (const claim of claims) begin(claim, catalog, startedAt);
    return claims.length;
  }

  function begin(claim: Claim, catalog: Catalog, startedAt: number): void {
    const attempt = deps.begin(claim, catalog);
    attempts.set(claim.claimId, { attempt, startedAt, renewedAt: startedAt });
    metrics.claimed(claim.waitedSeconds);
    void attempt.done.then((end) => {
      attempts.delete(claim.claimId);
      if (end === 'completed') shortage.completed(startedAt);
      const took = performance.now() - startedAt;
      metrics.ended(end, took / 1_000);
      meanMs = meanMs === null ? took : meanMs * (1 - NEWEST) + took * NEWEST;
      wakeUp.wake();
    });
  }

  const isBusy = () => attempts.size > Math.max(1, slots.large / 2);

  async function untilSlotsAreFree(): Promise<void> {
    const until = performance.now() + GATHER_SLOTS_MS;
    for (let left = GATHER_SLOTS_MS; left > 0 && isBusy(); left = until - performance.now())
      await wakeUp.wait(left);
  }

  return {
    attempts,
    meanDurationMs: () => (meanMs === null ? null : Math.round(meanMs)),
    countNearBarrier() {
      if (!isBusy()) return 0;
      const since = performance.now() - SMALL_MS;
      return [...attempts.values()].filter(({ startedAt }) => startedAt > since).length;
    },
    async run(signal) {
      const unlisten = listen(sql, JOBS_CHANNEL, wakeUp.wake, wakeUp.wake);
      signal.addEventListener('abort', wakeUp.wake);
      while (!signal.aborted) {
        const claimed = await claimSome(signal).catch((error: unknown) => {
          logger.error({ err: error }, 'transfers could not be claimed; retrying in 1 s');
          return 0;
        });
        // Jobs that become due and slots that become free in this moment share the next claim.
        if (claimed === 0) await wakeUp.wait(LOOK_MS);
        else await sleep(GATHER_DUE_MS);
        await untilSlotsAreFree();
      }
      unlisten();
    },
  };
}
