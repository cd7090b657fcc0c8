import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from '../../adapters/postgres/listen.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import { admitTransfer, endAttempt } from '../../commands/transfers.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { DomainError } from '../../domain/errors.ts';
import { parseStream, streamName } from '../../domain/events/streams.ts';
import { isClosed, isEnded } from '../../domain/transfers/transfer.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { findEvent, missingStreams } from '../../projections/newest-of-log.ts';
import { isCaughtUp } from '../../projections/read-to-end.ts';
import { inOneProcess } from '../in-one-process.ts';
import { type ExpiredClaim, expiredClaims } from './claims.ts';
import { lookLaterForLost, removeJobs, removeUnknownJobs } from './cleanups.ts';
import { dispatchConsumer, type JobRecorder } from './consumer.ts';
import { JOBS_CHANNEL, pendingJobs, unknownJobs } from './job-table/jobs.ts';
import { freeJob } from './job-table/leases.ts';

const AT_ONCE = 256;
const LOOK_MS = 1_000;
/** Admission waits this long: a free mover claims the transfer sooner, which saves an append. */
const MOVERS_FIRST_MS = 250;
/**
 * Sweeps of expired leases begin this long after an outage of Postgres. Movers that survived it
 * release their claims first, so they do not count as lost.
 */
const MOVERS_RETURN_MS = 10_000;
/** A transfer that could not be admitted or swept is skipped for this long. */
const SET_ASIDE_MS = 60_000;
const UNKNOWN_EVERY_MS = 60_000;
const ACTOR = 'system:admission';
/** The end of a transfer of which nothing else is known. */
const UNKNOWN_END = { leftovers: true, completed: false, size: null, after: false, aborted: false };

export interface AdmissionDeps extends ConsumerDeps {
  record: JobRecorder;
}

export interface AdmissionTimes {
  moversReturnMs: number;
}

/**
 * Queues pending transfers for which no mover was free, and queues transfers of lost movers again.
 * One process of the installation does it at a time. Runs until the signal aborts.
 */
export async function runAdmission(
  deps: AdmissionDeps,
  signal: AbortSignal,
  times: AdmissionTimes = { moversReturnMs: MOVERS_RETURN_MS },
): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, JOBS_CHANNEL, wakeUp.wake, wakeUp.wake);
  signal.addEventListener('abort', wakeUp.wake);
  await inOneProcess(deps.locks, 'admission', signal, async (stop) => {
    try {
      await admitAndSweep(deps, times, stop, wakeUp.wait);
    } catch (error) {
      deps.logger.error({ err: error }, 'waiting transfers could not be admitted; retrying in 1 s');
      await wakeUp.wait(LOOK_MS);
    }
  });
  unlisten();
}

async function admitAndSweep(
  deps: AdmissionDeps,
  { moversReturnMs }: AdmissionTimes,
  signal: AbortSignal,
  wait: (ms: number) => Promise<unknown>,
): Promise<void> {
  const aside = createAside(deps);
  let sweepAt = performance.now() + moversReturnMs;
  let unknown: Unknown | null = null;
  let removeUnknownAt = performance.now();
  while (!signal.aborted) {
    await sleep(MOVERS_FIRST_MS);
    const pending = await pendingJobs(deps.sql, AT_ONCE, aside.ids());
    await Promise.all(pending.map((id) => aside.unless(id, 'admitted', () => admit(deps, id))));
    // After a silence of Postgres that cost the lock, movers get their time to return again.
    if (signal.aborted) return;
    if (performance.now() >= sweepAt) {
      await sweepExpired(deps, aside);
      sweepAt = performance.now() + LOOK_MS;
    }
    if (performance.now() >= removeUnknownAt) {
      unknown = await removeUnknown(deps, unknown ?? (await findUnknown(deps)));
      removeUnknownAt = performance.now() + (unknown ? LOOK_MS : UNKNOWN_EVERY_MS);
    }
    if (pending.length < AT_ONCE) await wait(LOOK_MS);
  }
}

interface Aside {
  /** Returns the transfers that are skipped for now. */
  ids(): string[];
  /**
   * Sets a transfer aside for a minute if the work fails. Throws only if a store is unavailable.
   */
  unless(transferId: string, done: string, work: () => Promise<void>): Promise<void>;
}

/** Creates the set of skipped transfers: one that fails must not delay the others. */
function createAside({ sql, store, logger }: AdmissionDeps): Aside {
  const until = new Map<string, number>();
  return {
    ids() {
      for (const [id, time] of until) if (time <= performance.now()) until.delete(id);
      return [...until.keys()];
    },
    async unless(transferId, done, work) {
      try {
        await work().catch(async (error: unknown) => {
          if (!(error instanceof DomainError && error.code === 'not_found')) throw error;
          // A former leader of an EventStoreDB may lack a new transfer for some seconds.
          const creation = { stream: streamName('transfer', transferId), revision: 0 };
          if ((await findEvent(store, creation)) !== null) return;
          // An older copy of the log was restored, and does not know this transfer.
          return removeJobs(sql, [{ ...UNKNOWN_END, transferId }]);
        });
      } catch (error) {
        if (isStoreUnavailable(error)) throw error;
        until.set(transferId, performance.now() + SET_ASIDE_MS);
        logger.error(
          { err: error, transfer_id: transferId },
          `a transfer could not be ${done}; retrying in 60 s`,
        );
      }
    },
  };
}

async function admit(deps: AdmissionDeps, transferId: string): Promise<void> {
  const cause = { actor: ACTOR, correlationId: transferId };
  await deps.record(await admitTransfer(deps, transferId, cause));
}

async function sweepExpired(deps: AdmissionDeps, aside: Aside): Promise<void> {
  for (const claim of await expiredClaims(deps.sql, AT_ONCE, aside.ids())) {
    deps.logger.warn(
      { transfer_id: claim.transferId, claim_id: claim.claimId },
      'the lease of a claim ran out',
    );
    await aside.unless(claim.transferId, 'swept', () => sweep(deps, claim));
  }
}

async function sweep(deps: AdmissionDeps, claim: ExpiredClaim): Promise<void> {
  const { transferId, claimId, ...found } = claim;
  const cause = { actor: ACTOR, correlationId: claimId };
  // Before its event: a server may still carry out requests of the lost mover.
  await lookLaterForLost(deps.sql, transferId);
  const lost = await endAttempt(deps, transferId, claimId, { type: 'mover_lost', ...found }, cause);
  await deps.record(lost);
  if (lost.events.length > 0) return;
  // The attempt never began, or the transfer has ended and the job does not show it yet.
  if (isEnded(lost.state)) {
    const after = !isClosed(lost.state);
    const completed = lost.state.status === 'completed';
    const size = completed ? lost.state.facts.size_bytes : null;
    await removeJobs(deps.sql, [{ ...UNKNOWN_END, transferId, completed, size, after }]);
  } else if (lost.state.status !== 'in_progress') await freeJob(deps.sql, claim);
}

/** A rebuild kept jobs whose transfers the log has not shown again. */
interface Unknown {
  /** Where the log ended when they were found: it does not show them after that. */
  end: bigint | null;
}

async function findUnknown({ sql, store }: AdmissionDeps): Promise<Unknown | null> {
  return (await unknownJobs(sql)).length === 0 ? null : { end: await store.head() };
}

/**
 * Removes the jobs that the log still has not shown, because an older copy of it was restored.
 * Returns them if the log may still show some. A log that grows all the time always holds one more
 * event, so it counts up to `end` only. `end` is too early if a former leader of an EventStoreDB
 * named it, so the streams are read, too.
 */
async function removeUnknown(
  deps: AdmissionDeps,
  unknown: Unknown | null,
): Promise<Unknown | null> {
  if (unknown === null) return null;
  if (!(await isCaughtUp(deps, dispatchConsumer, { end: unknown.end }))) return unknown;
  const left = await unknownJobs(deps.sql);
  const streams = left.map((id) => streamName('transfer', id));
  const missing = await missingStreams(deps.store, streams);
  await removeUnknownJobs(
    deps.sql,
    missing.map((stream) => parseStream(stream).id),
  );
  return null;
}
