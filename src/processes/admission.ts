import { setTimeout as sleep } from 'node:timers/promises';
import { createBell } from '../bell.ts';
import { admitTransfer, endAttempt } from '../commands/transfers.ts';
import { DomainError } from '../domain/errors.ts';
import { isEnded } from '../domain/transfer.ts';
import type { ConsumerDeps } from '../projections/consumer.ts';
import { dropClaim, type ExpiredClaim, expiredClaims } from './claims.ts';
import { JOBS_CHANNEL, type JobRecorder, removeEndedJob } from './jobs.ts';

const AT_ONCE = 256;
const LOOK_MS = 1_000;
/** A mover that is soon free claims a pending transfer, which spares it the way through the queue; the others go it together. */
const MOVERS_FIRST_MS = 250;
const ACTOR = 'system:admission';

export interface AdmissionDeps extends ConsumerDeps {
  record: JobRecorder;
}

/**
 * Takes pending transfers that no mover was free for into the queue, and puts back those whose mover has
 * vanished; one process in the installation at a time. Runs until the signal aborts.
 */
export async function runAdmission(deps: AdmissionDeps, signal: AbortSignal): Promise<void> {
  const bell = createBell();
  const listening = await deps.sql.listen(JOBS_CHANNEL, bell.ring, bell.ring);
  signal.addEventListener('abort', bell.ring);
  while (!signal.aborted) {
    const held = await deps.locks.acquire('admission', signal).catch(() => null);
    if (!held) break;
    try {
      await admitAndSweep(deps, AbortSignal.any([signal, held.signal]), bell.wait);
    } catch (error) {
      deps.logger.error({ err: error }, 'admission failed; it tries again');
      await bell.wait(LOOK_MS);
    } finally {
      await held.release();
    }
  }
  await listening.unlisten().catch(() => undefined);
}

async function admitAndSweep(deps: AdmissionDeps, signal: AbortSignal, wait: (ms: number) => Promise<unknown>): Promise<void> {
  let sweptAt = 0;
  while (!signal.aborted) {
    await sleep(MOVERS_FIRST_MS);
    const pending = await deps.sql<{ transfer_id: string }[]>`
      select transfer_id from work.transfer_jobs
       where status = 'pending' and claim_id is null order by rank limit ${AT_ONCE}`;
    await Promise.all(pending.map((row) => admit(deps, row.transfer_id)));
    if (Date.now() - sweptAt >= LOOK_MS) {
      await sweepExpired(deps);
      sweptAt = Date.now();
    }
    if (pending.length < AT_ONCE) await wait(LOOK_MS);
  }
}

async function admit(deps: AdmissionDeps, transferId: string): Promise<void> {
  const cause = { actor: ACTOR, correlationId: transferId };
  await deps.record(await admitTransfer(deps, transferId, cause));
}

async function sweepExpired(deps: AdmissionDeps): Promise<void> {
  for (const claim of await expiredClaims(deps.sql, AT_ONCE)) {
    deps.logger.warn({ transfer_id: claim.transferId, claim_id: claim.claimId }, 'the lease of a claim ran out');
    await sweep(deps, claim).catch((error: unknown) => {
      if (!(error instanceof DomainError && error.code === 'not_found')) throw error;
      // An older copy of the log was restored, which does not know this transfer.
      return removeEndedJob(deps.sql, claim.transferId);
    });
  }
}

async function sweep(deps: AdmissionDeps, claim: ExpiredClaim): Promise<void> {
  const { transferId, claimId, figures } = claim;
  const cause = { actor: ACTOR, correlationId: claimId };
  const lost = await endAttempt(deps, transferId, claimId, { type: 'mover_lost', figures }, cause);
  await deps.record(lost);
  if (lost.events.length > 0) return;
  // The attempt never began, or its transfer has ended and the row has not heard of it.
  if (isEnded(lost.state)) await removeEndedJob(deps.sql, transferId);
  else if (lost.state.status !== 'in_progress') await dropClaim(deps.sql, claim);
}
