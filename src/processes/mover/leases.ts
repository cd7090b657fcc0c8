import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { pause } from '../../concurrency/pause.ts';
import { LEASE_SECONDS, renewJobs } from '../dispatch/job-table/leases.ts';
import type { Attempt } from './attempt.ts';

/** How often to renew leases and save progress. */
const RENEW_MS = 1_000;
/** The longest wait for a renewal. The next one then uses another connection. */
const ANSWER_WITHIN_MS = 3_000;
/** An attempt stops after this long without a renewal, well before another mover may take over. */
export const CUT_OFF_MS = (LEASE_SECONDS - 10) * 1_000;

/** An attempt that runs. Times are by `performance.now`. */
export interface RunningAttempt {
  attempt: Attempt;
  startedAt: number;
  renewedAt: number;
}

export interface LeaseDeps {
  sql: Sql;
  logger: Pick<Logger, 'warn'>;
  /** By claim. */
  attempts: ReadonlyMap<string, RunningAttempt>;
  /** Reports the process as alive. Called before each renewal. */
  report(): Promise<void>;
}

/**
 * Renews the leases of all attempts each second, and saves their progress. Stops an attempt whose
 * claim is lost, or that has had no renewal for too long. Runs beside the claim loop until the
 * signal aborts and every attempt has ended, so also in the grace time.
 */
export async function keepLeases(deps: LeaseDeps, signal: AbortSignal): Promise<void> {
  const { attempts } = deps;
  while (!signal.aborted || attempts.size > 0) {
    await Promise.race([renewAll(deps), sleep(ANSWER_WITHIN_MS, undefined, { ref: false })]);
    for (const { attempt, renewedAt } of attempts.values()) {
      if (performance.now() - renewedAt > CUT_OFF_MS) attempt.stop('lease_lost');
    }
    await pause(RENEW_MS, signal.aborted ? undefined : signal);
  }
}

/** Never rejects. A late answer counts from the time of its request. */
async function renewAll({ sql, logger, attempts, report }: LeaseDeps): Promise<void> {
  const now = performance.now();
  const renewals = [...attempts.values()].map(({ attempt }) => ({
    ...attempt.claim,
    figures: attempt.figures(),
  }));
  try {
    await report();
    if (renewals.length === 0) return;
    const held = await renewJobs(sql, renewals);
    for (const { claimId } of renewals) {
      const entry = attempts.get(claimId);
      if (entry && held.has(claimId)) entry.renewedAt = Math.max(entry.renewedAt, now);
      else entry?.attempt.stop('lease_lost');
    }
  } catch (error) {
    logger.warn({ err: error }, 'leases could not be renewed');
  }
}
