import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createFileThread } from '../../adapters/files/threads/file-thread.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import { createBatcher } from '../../batcher.ts';
import { createBell } from '../../bell.ts';
import { newId } from '../../domain/ids.ts';
import { listEndpoints } from '../../projections/catalog-queries.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { claimTransfers, type ResumeSave, renewLeases, saveResumeRecords } from '../claims.ts';
import { JOBS_CHANNEL, type JobRecorder } from '../jobs.ts';
import type { Reachability } from '../reachability.ts';
import { type Attempt, type AttemptDeps, type AttemptEnd, beginAttempt } from './attempt.ts';
import { cleanUp } from './cleanup.ts';
import { createEndpointPool, type EndpointPool } from './endpoint-pool.ts';
import { createGathering } from './gathering.ts';
import { createHashThread } from './hash-thread.ts';
import { createInlineHasher } from './hasher.ts';
import { heldSignIns } from './sign-in-holds.ts';
import { createSlotPool } from './slots.ts';

/** Memory for the chunks of large files: 8 slots of 8 MiB in a process, whatever moves. A lone file takes 6, and more made nothing faster. */
const SLOTS = 8;
const SLOT_BYTES = 8 * 1024 * 1024;
/** Up to here sending it to another thread costs more than the hash. */
const HASHED_INLINE_BYTES = 256 * 1024;
const LOOK_MS = 1_000;
/** So long a busy mover waits for other transfers to come as far: what is written for many costs as much as for one. */
const GATHER_MS = 20;
/** A transfer that has taken longer than this is not waited for. */
const SMALL_MS = 1_000;
/** So long slots that become free are waited for, when most of them are taken. */
const GATHER_SLOTS_MS = 15;
/** And so long transfers that become due, after some were claimed. */
const GATHER_DUE_MS = 5;
/** Leases are renewed, and progress noted, this often; the lease itself is 30 s. */
const RENEW_MS = 1_000;
/** The next renewal does not wait longer for one that got no answer: it goes over another connection. */
const ANSWER_WITHIN_MS = 3_000;
/** Without a renewal for so long the mover cuts its own connections, well before anybody else may take over. */
const CUT_OFF_MS = 20_000;
/** The share of the newest transfer in the mean duration that estimates rest on. */
const NEWEST = 0.1;

/** Told what a mover does. Times in seconds. */
export interface MoverMetrics {
  claimed(waited: number): void;
  moved(bytes: number): void;
  ended(end: AttemptEnd, took: number): void;
  /** Hands over what tells how many connections are open. */
  watchConnections(count: () => Promise<{ endpoint: string; side: 'source' | 'destination'; open: number }[]>): void;
}

export interface MoverDeps extends ConsumerDeps {
  vault: Vault;
  record: JobRecorder;
  reachability: Reachability;
  /** For what must outlive a crash of Postgres; `sql` is for what the log can give again. */
  durable: Sql;
  metrics: MoverMetrics;
  /** Transfers that move at once. */
  slots: number;
  retryDelays: number[];
  /** How long a shutdown waits for moves to end by themselves, in milliseconds. */
  graceMs: number;
}

/**
 * Claims transfers that are due and moves them, until the signal aborts. Then it claims nothing more,
 * gives what moves its grace time, hands back what has not ended, and returns.
 */
export async function runMover(deps: MoverDeps, signal: AbortSignal): Promise<void> {
  const processId = `${hostname()}:${process.pid}:${newId('clm').slice(-6)}`;
  const sourceThread = createFileThread('sources');
  const destinationThread = createFileThread('destinations');
  const hashThread = createHashThread();
  const sources = createEndpointPool({ vault: deps.vault, open: sourceThread.open });
  const destinations = createEndpointPool({ vault: deps.vault, open: destinationThread.open });
  // Without a limit: a save that comes late must not land over the next one.
  const saveSoon = createBatcher((saves: ResumeSave[]) => saveResumeRecords(deps.sql, saves), { answerWithinMs: null });
  const saveDurably = createBatcher((saves: ResumeSave[]) => saveResumeRecords(deps.durable, saves), { answerWithinMs: null });
  const createHasher = (size: number) => (size > HASHED_INLINE_BYTES ? hashThread.create() : createInlineHasher());
  const slots = createSlotPool(SLOTS, SLOT_BYTES);
  const attempts = new Map<string, { attempt: Attempt; startedAt: number; renewedAt: number }>();
  const bell = createBell();
  const listening = await deps.sql.listen(JOBS_CHANNEL, bell.ring, bell.ring);
  signal.addEventListener('abort', bell.ring);
  let meanMs: number | null = null;

  const attemptDeps: AttemptDeps = {
    ...deps,
    actor: `mover:${processId}`,
    sources,
    destinations,
    createHasher,
    saveRecord: (save) => (save.durable ? saveDurably(save) : saveSoon(save)),
    slots,
    gather: createGathering(expected, GATHER_MS),
    moved: deps.metrics.moved,
  };
  deps.metrics.watchConnections(async () => [
    ...(await connections('source', sources)),
    ...(await connections('destination', destinations)),
  ]);

  async function claimSome(): Promise<number> {
    const free = deps.slots - attempts.size;
    if (free <= 0) return 0;
    const claims = await claimTransfers(deps.sql, processId, free);
    if (claims.length === 0) return 0;
    const [catalogued, held] = await Promise.all([listEndpoints(deps.sql), heldSignIns(deps.sql)]);
    const catalog = { endpoints: catalogued, held };
    for (const claim of claims) {
      const attempt = beginAttempt(attemptDeps, claim, catalog);
      const startedAt = performance.now();
      attempts.set(claim.claimId, { attempt, startedAt, renewedAt: startedAt });
      deps.metrics.claimed(claim.waitedSeconds);
      void attempt.done.then((end) => {
        attempts.delete(claim.claimId);
        const took = performance.now() - startedAt;
        deps.metrics.ended(end, took / 1_000);
        meanMs = meanMs === null ? took : meanMs * (1 - NEWEST) + took * NEWEST;
        bell.ring();
      });
    }
    return claims.length;
  }

  const busy = () => attempts.size > Math.max(1, deps.slots / 2);

  /** Attempts that may come to what others wait with. */
  function expected(): number {
    const since = performance.now() - SMALL_MS;
    return busy() ? [...attempts.values()].filter(({ startedAt }) => startedAt > since).length : 0;
  }

  async function untilSlotsAreFree(): Promise<void> {
    const until = performance.now() + GATHER_SLOTS_MS;
    for (let left = GATHER_SLOTS_MS; left > 0 && busy(); left = until - performance.now()) await bell.wait(left);
  }

  /** Runs beside the claims, also through the grace time of a shutdown, until every attempt has ended. */
  async function keepLeases(): Promise<void> {
    while (!signal.aborted || attempts.size > 0) {
      await Promise.race([renewAll(), sleep(ANSWER_WITHIN_MS, undefined, { ref: false })]);
      for (const { attempt, renewedAt } of attempts.values()) {
        if (performance.now() - renewedAt > CUT_OFF_MS) attempt.stop('lease_lost');
      }
      await sleep(RENEW_MS, undefined, { signal: signal.aborted ? undefined : signal }).catch(() => undefined);
    }
  }

  /** Never rejects. An answer that comes late still tells how it stood when it was asked for. */
  async function renewAll(): Promise<void> {
    const now = performance.now();
    const renewals = [...attempts.values()].map(({ attempt }) => ({ ...attempt.claim, figures: attempt.figures }));
    try {
      await deps.sql`
        insert into work.movers (process_id, slots, active, mean_duration_ms) values (${processId}, ${deps.slots}, ${attempts.size}, ${meanMs})
        on conflict (process_id) do update set slots = excluded.slots, active = excluded.active, mean_duration_ms = excluded.mean_duration_ms, seen_at = now()`;
      if (renewals.length === 0) return;
      const held = await renewLeases(deps.sql, renewals);
      for (const { claimId } of renewals) {
        const entry = attempts.get(claimId);
        if (entry && held.has(claimId)) entry.renewedAt = Math.max(entry.renewedAt, now);
        else entry?.attempt.stop('lease_lost');
      }
    } catch (error) {
      deps.logger.warn({ err: error }, 'leases could not be renewed');
    }
  }

  /** Beside the moves, and never in their way. */
  async function tidy(): Promise<void> {
    while (!signal.aborted) {
      const due = await cleanUp({ ...deps, endpoints: destinations }, signal).catch((error: unknown) => {
        deps.logger.error({ err: error }, 'clean-up failed; trying again');
        return 0;
      });
      if (due === 0) await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  const keeping = keepLeases();
  const tidying = tidy();
  while (!signal.aborted) {
    const claimed = await claimSome().catch((error: unknown) => {
      deps.logger.error({ err: error }, 'transfers could not be claimed; trying again');
      return 0;
    });
    // What becomes due or free in a moment is claimed together.
    if (claimed === 0) await bell.wait(LOOK_MS);
    else await sleep(GATHER_DUE_MS);
    await untilSlotsAreFree();
  }

  await listening.unlisten().catch(() => undefined);
  const grace = setTimeout(() => {
    for (const { attempt } of attempts.values()) attempt.stop('shutdown');
  }, deps.graceMs);
  await Promise.all([...attempts.values()].map(({ attempt }) => attempt.done));
  clearTimeout(grace);
  await Promise.all([keeping, tidying]);
  await Promise.all([sources.close(), destinations.close()]);
  await Promise.all([sourceThread.close(), destinationThread.close(), hashThread.close()]);
  await deps.sql`delete from work.movers where process_id = ${processId}`.catch(() => undefined);
}

async function connections<Side extends string>(side: Side, pool: EndpointPool) {
  return [...(await pool.connections())].map(([endpoint, open]) => ({ endpoint, side, open }));
}
