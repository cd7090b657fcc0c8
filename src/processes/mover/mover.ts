/*
 * The mover of a process: claims due jobs and runs one attempt (attempt.ts) for each, as many at
 * once as slots.ts allows.
 *
 * Six loops run side by side:
 * - The claim loop claims jobs for free slots (claim-loop.ts). It gathers slots and jobs for some
 *   milliseconds, because one statement for many costs as much as a statement for one.
 * - `keepLeases` renews every claim each second and saves the progress of the attempts (leases.ts).
 * - `keepLimits` divides the bandwidth limits of endpoints each second (bandwidth.ts).
 * - `runCleanUps` removes leftovers of ended transfers (cleanup.ts).
 * - `runAfterSteps` takes the steps after transfers (after/worker.ts).
 * - `watchHostKeys` records new host keys that verified servers announce (announced-keys.ts).
 *
 * States: it waits until the catalog has caught up, then claims. When the signal aborts, it claims
 * nothing more and lets attempts run for the grace time. It then stops them, which releases their
 * claims. After 5 more seconds it gives up on stores that do not answer, and closes.
 *
 * What can go wrong:
 * - The process ends or freezes. Its leases expire after 30 s, and admission queues the transfers
 *   again with `mover_lost`.
 * - Postgres does not answer. Attempts continue for 20 s without a renewal, then stop: before the
 *   lease expires and another mover may take over.
 * - A renewal says that a claim is lost. Its attempt stops and asks the stream. If another process
 *   has ended the attempt, it schedules a clean-up.
 * - The endpoints cannot be read within 20 s after a claim. The claims expire, and admission frees
 *   them.
 * - The process has too many open files, or its machine no memory. Its attempts are released, which
 *   uses up no retry, and it claims little until one has completed (shortage.ts).
 * - A store is unavailable until the end of a shutdown. The attempt ends as `not_recorded`, and its
 *   lease expires.
 *
 * It relies on fencing by claim id in the stream, and on one thread each for sources, destinations
 * and hashes. Large files share a fixed buffer pool. Files of up to 256 KiB, files of up to 8 MiB to
 * S3 or Azure, and files at an endpoint with a limit have memory of their own (buffer-pool.ts,
 * limited-buffers.ts).
 */
import { hostname } from 'node:os';
import type { Side } from '../../adapters/files/port.ts';
import { createFileThread, type FileThread } from '../../adapters/files/threads/file-thread.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import { createBatcher } from '../../concurrency/batcher.ts';
import { newId } from '../../domain/ids.ts';
import { SMALL_FILE_BYTES } from '../../domain/small-file.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { untilCaughtUp } from '../../projections/until-caught-up.ts';
import { runAfterSteps } from '../after/worker.ts';
import { type ResumeSave, saveResumeRecords } from '../dispatch/claims.ts';
import { lookLater } from '../dispatch/cleanups.ts';
import type { JobRecorder } from '../dispatch/consumer.ts';
import { removeMover, reportMover } from '../dispatch/live-movers.ts';
import { watchHostKeys } from '../endpoints/announced-keys.ts';
import type { Connectivity } from '../endpoints/connectivity.ts';
import { createEndpointPool, type EndpointPool } from '../endpoints/pool.ts';
import { type AttemptDeps, beginAttempt } from './attempt.ts';
import { type BandwidthLimits, createBandwidthLimits, keepLimits } from './bandwidth.ts';
import { createBufferPool } from './buffer-pool.ts';
import { type ClaimLoop, type ClaimMetrics, createClaimLoop } from './claim-loop.ts';
import { runCleanUps } from './cleanup.ts';
import { createHashThread } from './hash/hash-thread.ts';
import { createInlineHasher } from './hash/hasher.ts';
import { keepLeases } from './leases.ts';
import { createLeftToOthers } from './left-to-others.ts';
import { createShortage } from './shortage.ts';
import { createSlots, type Slots } from './slots.ts';
import { createWriteBarrier } from './write-barrier.ts';

/**
 * Buffers for the chunks of large files, 8 MiB each, shared by all transfers of a process. One file
 * alone uses 6; more were not faster.
 */
const BUFFERS = 8;
const BUFFER_BYTES = 8 * 1024 * 1024;
/**
 * How long a busy mover waits for other transfers to reach the same point. One write for many
 * transfers costs as much as a write for one.
 */
const GATHER_MS = 20;
/** How long a shutdown waits for an unavailable store, after the grace time. */
const STORES_BACK_WITHIN_MS = 5_000;

/** Receives what a mover does. */
export interface MoverMetrics extends ClaimMetrics {
  moved(bytes: number): void;
  /** Registers the function that returns the bandwidth limits of endpoints, divided. */
  watchBandwidth(rates: BandwidthLimits['rates']): void;
  /** Registers the function that counts open connections. */
  watchConnections(
    count: () => Promise<{ endpoint: string; side: 'source' | 'destination'; open: number }[]>,
  ): void;
}

export interface MoverDeps extends ConsumerDeps {
  vault: Vault;
  record: JobRecorder;
  connectivity: Connectivity;
  /** For rows that must survive a crash of Postgres. `sql` is for rows that the log can restore. */
  durable: Sql;
  metrics: MoverMetrics;
  /** How many transfers move at once; more if all are small (slots.ts). */
  slots: number;
  retryDelays: number[];
  /** How long a shutdown lets attempts run to their end, in milliseconds. */
  graceMs: number;
}

/**
 * Claims due transfers and moves them until the signal aborts. Then it claims nothing more, lets
 * attempts run for the grace time, releases the others, and returns.
 */
export async function runMover(deps: MoverDeps, signal: AbortSignal): Promise<void> {
  const processId = `${hostname()}:${process.pid}:${newId('clm').slice(-6)}`;
  const threads = createThreads(deps.vault);
  const { sources, destinations } = threads;
  const saveSoon = createBatcher((saves: ResumeSave[]) => saveResumeRecords(deps.sql, saves));
  const saveDurably = createBatcher((saves: ResumeSave[]) =>
    saveResumeRecords(deps.durable, saves),
  );
  const buffers = createBufferPool(BUFFERS, BUFFER_BYTES);
  const slots = createSlots(deps.slots);
  const leftToOthers = createLeftToOthers();
  const shortage = createShortage(deps);
  const claims = createClaimLoop({
    ...deps,
    processId,
    slots,
    leftToOthers,
    shortage,
    pools: [sources, destinations],
    begin: (claim, catalog) => beginAttempt(attemptDeps, claim, catalog),
  });
  const { attempts } = claims;
  const reports = createReports(deps.sql, processId, slots, claims);
  const givenUp = new AbortController();
  const bandwidth = createBandwidthLimits({ ...deps, processId, setRate: threads.setRate });

  const attemptDeps: AttemptDeps & { durable: Sql } = {
    ...deps,
    actor: `mover:${processId}`,
    processId,
    leftToOthers,
    shortage,
    sources,
    destinations,
    createHasher: threads.createHasher,
    lookLater: (claim) => lookLater(deps.durable, claim),
    saveRecord: (save) => (save.durable ? saveDurably(save) : saveSoon(save)),
    buffers,
    slots,
    bandwidth,
    gather: createWriteBarrier(claims.countNearBarrier, GATHER_MS),
    moved(bytes) {
      reports.add(bytes);
      deps.metrics.moved(bytes);
    },
    givenUp: givenUp.signal,
  };
  deps.metrics.watchBandwidth(bandwidth.rates);
  deps.metrics.watchConnections(threads.connections);

  // A catalog that is being filled lacks endpoints, and shows paused ones as not paused.
  const catalogReady = untilCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog), signal);
  const renewing = Promise.all([
    keepLeases({ ...deps, attempts, report: reports.send }, signal),
    keepLimits(bandwidth, signal, () => attempts.size > 0),
  ]);
  const cleaning = catalogReady.then(() =>
    runCleanUps({ ...deps, endpoints: destinations }, signal),
  );
  const watching = watchHostKeys(attemptDeps, [sources, destinations], signal);
  await catalogReady;
  const following = runAfterSteps(attemptDeps, signal);
  await claims.run(signal);
  await letEnd(attempts, deps.graceMs, () => givenUp.abort());
  await Promise.all([renewing, cleaning, watching, following]);
  await threads.close();
  await reports.end();
}

/** The threads of a mover, and the pools of the connections that they keep. */
function createThreads(vault: Vault) {
  const source = createFileThread('sources');
  const destination = createFileThread('destinations');
  const hashes = createHashThread();
  const sources = createEndpointPool({ vault, open: source.open });
  const destinations = createEndpointPool({ vault, open: destination.open });
  const threads: Record<Side, FileThread> = { source, destination };

  return {
    sources,
    destinations,
    createHasher: (size: number) =>
      size > SMALL_FILE_BYTES ? hashes.create() : createInlineHasher(),
    setRate: (side: Side, endpointId: string, rate: number | null) =>
      threads[side].setRate(endpointId, rate),
    connections: async () => [
      ...(await connections('source', sources)),
      ...(await connections('destination', destinations)),
    ],
    async close() {
      await Promise.all([sources.close(), destinations.close()]);
      await Promise.all([source.close(), destination.close(), hashes.close()]);
    },
  };
}

/** Reports to Postgres what the mover does, with the bytes that it has moved since. */
function createReports(sql: Sql, processId: string, slots: Slots, claims: ClaimLoop) {
  /** Bytes that no report has. */
  let unreported = 0;

  return {
    add(bytes: number) {
      unreported += bytes;
    },
    /** Takes the bytes out before it waits: the next report may begin before this one has ended. */
    async send(): Promise<void> {
      const movedBytes = unreported;
      unreported = 0;
      const meanDurationMs = claims.meanDurationMs();
      const status = { slots: slots.total, active: claims.attempts.size, meanDurationMs };
      await reportMover(sql, { processId, ...status, movedBytes }).catch((error: unknown) => {
        unreported += movedBytes;
        throw error;
      });
    },
    /** Removes the mover, and adds the bytes that are left. */
    end: () => removeMover(sql, processId, unreported).catch(() => undefined),
  };
}

/**
 * Waits until all attempts have ended. Stops them after the grace time. `giveUp` makes them end
 * without their stores.
 */
async function letEnd(
  attempts: ClaimLoop['attempts'],
  graceMs: number,
  giveUp: () => void,
): Promise<void> {
  const grace = setTimeout(() => {
    for (const { attempt } of attempts.values()) attempt.stop('shutdown');
  }, graceMs);
  const end = setTimeout(giveUp, graceMs + STORES_BACK_WITHIN_MS);
  await Promise.all([...attempts.values()].map(({ attempt }) => attempt.done));
  clearTimeout(grace);
  clearTimeout(end);
}

async function connections(side: Side, pool: EndpointPool) {
  return [...(await pool.connections())].map(([endpoint, open]) => ({ endpoint, side, open }));
}
