import { createBell } from '../bell.ts';
import type { Handled } from '../commands/handle.ts';
import { admitTransfer, endAttempt, streamOf } from '../commands/transfers.ts';
import type { Transfer } from '../domain/transfer.ts';
import type { ConsumerDeps } from '../projections/consumer.ts';
import { dropClaim, expiredClaims } from './claims.ts';
import { JOBS_CHANNEL, recordInJobs } from './jobs.ts';

const AT_ONCE = 64;
const LOOK_MS = 1_000;
const ACTOR = 'system:admission';

/**
 * Takes pending transfers into the queue, and puts back those whose mover has vanished; one process in
 * the installation at a time. Runs until the signal aborts.
 */
export async function runAdmission(deps: ConsumerDeps, signal: AbortSignal): Promise<void> {
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

async function admitAndSweep(deps: ConsumerDeps, signal: AbortSignal, wait: (ms: number) => Promise<void>): Promise<void> {
  let sweptAt = 0;
  while (!signal.aborted) {
    const pending = await deps.sql<{ transfer_id: string; account_id: string }[]>`
      select transfer_id, account_id from work.transfer_jobs where status = 'pending' order by rank limit ${AT_ONCE}`;
    await Promise.all(pending.map((row) => admit(deps, row.transfer_id, row.account_id)));
    if (Date.now() - sweptAt >= LOOK_MS) {
      await sweepExpired(deps);
      sweptAt = Date.now();
    }
    if (pending.length < AT_ONCE) await wait(LOOK_MS);
  }
}

async function admit(deps: ConsumerDeps, transferId: string, accountId: string): Promise<void> {
  const cause = { actor: ACTOR, accountId, correlationId: transferId };
  await recordInJobs(deps.sql, asStored(await admitTransfer(deps, transferId, cause)));
}

async function sweepExpired(deps: ConsumerDeps): Promise<void> {
  for (const claim of await expiredClaims(deps.sql, AT_ONCE)) {
    const { transferId, claimId, accountId, figures } = claim;
    deps.logger.warn({ transfer_id: transferId, claim_id: claimId }, 'the lease of a claim ran out');
    const cause = { actor: ACTOR, accountId, correlationId: claimId };
    const lost = await endAttempt(deps, transferId, claimId, { type: 'mover_lost', figures }, cause);
    await recordInJobs(deps.sql, asStored(lost));
    // The attempt may never have begun, or its start may not have reached the row yet: the log has told.
    if (lost.events.length === 0 && lost.state.status !== 'in_progress') await dropClaim(deps.sql, claim);
  }
}

/** The events that a command appended, with their places in the stream. */
export function asStored({ state, events, revision }: Handled<Transfer>) {
  const stream = streamOf(state.facts.transfer_id);
  return events.map((event, i) => ({ ...event, stream, revision: revision - events.length + 1 + i }));
}
