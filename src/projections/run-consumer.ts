/*
 * Follows the event log for a named consumer: a projection or a process manager.
 *
 * A consumer changes its rows and its checkpoint in one transaction. It moves no file and appends no
 * event. So a crash repeats a whole batch or nothing. Only the outbox has requests made meanwhile,
 * which may be repeated (processes/webhooks/first-attempts.ts).
 *
 * One process of the installation runs a consumer; an advisory lock decides which. The states, as
 * readiness shows them:
 * - `stand_by`: another process has the lock.
 * - `active`: this process reads the log, at a position.
 * - `rebuilding`: an older version made the tables (rebuild-outdated.ts).
 * - `left_to_newer`: a newer version made the tables. This process serves them, and does not follow
 *   the log for them.
 * - `failed`: the last run stopped with an error. Lasts until a batch succeeds or another process
 *   has the lock.
 *
 * What can go wrong:
 * - The lock is lost. The consumer reports `failed` at once, stops, and stands by. If another
 *   process moves the checkpoint first, the open transaction fails on it.
 * - A rebuild or another process moves the checkpoint, or a failover of Postgres loses the newest
 *   events (CheckpointMoved). The consumer loads it again and continues. This is no failure.
 * - A store does not answer, or an event cannot be folded. The consumer logs the error, releases
 *   the lock and retries after 5 s. It never skips an event.
 * - A newer version of Waybill rebuilds the tables (NewerTables). The consumer ends.
 * - The checkpoint belongs to another log (WrongLog). `runConsumer` throws, and the service ends.
 *
 * It relies on batches whose position says that everything before was delivered, and on
 * `moveCheckpoint`, which fails unless the checkpoint is where this consumer left it. The
 * generation of the checkpoint, loaded once, tells a take-over of a rebuild that leaves the
 * position. Rows that a batch read from the tables before are then not written to the new ones.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventBatch } from '../adapters/event-store/port.ts';
import type { Sql } from '../adapters/postgres/connect.ts';
import { listen } from '../adapters/postgres/listen.ts';
import type { Held } from '../adapters/postgres/locks.ts';
import { upcast } from '../domain/events/upcast.ts';
import {
  CheckpointMoved,
  loadCheckpoint,
  NewerTables,
  RESTART_CHANNEL,
  resumePosition,
  startCheckpoint,
  WrongLog,
} from './checkpoint.ts';
import {
  type Consumer,
  type ConsumerDeps,
  type ConsumerStatus,
  lockOf,
  type Pause,
  publicReason,
} from './consumer.ts';
import { notInTime, silenceLimit } from './read-to-end.ts';
import { inSteps } from './retention/in-steps.ts';
import { createRemovedLeaves } from './retention/removed-leaves.ts';
import { prepareBatch } from './save-batch.ts';

const BATCH = 1_000;
/** How often to save a position that moved without an event for this consumer. */
const EMPTY_MOVES_MS = 1_000;
/** A batch of this many events means a busy moment: a single transfer causes fewer. */
const BUSY = 5;
const RETRY_AFTER_MS = 5_000;

/**
 * Follows the log until the signal aborts, as the only active consumer of its name in the
 * installation, or stands by for it. Reports a failure and retries it after 5 s. Returns if a newer
 * version made the tables. Throws WrongLog, because a retry cannot fix it.
 */
export async function runConsumer(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
  report: (status: ConsumerStatus) => void,
): Promise<void> {
  let failed = false;
  while (!signal.aborted) {
    // A failed consumer stays `failed` in every report until it makes progress or another process
    // takes over.
    let held: Held | null = failed
      ? await deps.locks.tryAcquire(lockOf(consumer.name)).catch(() => null)
      : null;
    if (!held) {
      report({ state: 'stand_by' });
      held = await deps.locks.acquire(lockOf(consumer.name), signal).catch((error: unknown) => {
        if (signal.aborted) return null;
        throw error;
      });
    }
    if (!held) return;
    failed = false;
    const lock: AbortSignal = held.signal;
    const restart = watchRestarts(deps.sql, consumer);
    const stop = AbortSignal.any([signal, lock, restart.signal]);
    // Reported at once: the open transaction may wait another minute for its answer.
    const onLoss = () => {
      if (signal.aborted) return;
      deps.logger.warn(
        { consumer: consumer.name, reason: (lock.reason as Error).message },
        'a consumer of the log has lost its lock; another process may run it now',
      );
      report({ state: 'failed', error: publicReason(lock.reason) });
    };
    lock.addEventListener('abort', onLoss, { once: true });
    try {
      await consume(deps, consumer, stop, (position) => {
        restart.passed(position);
        if (!stop.aborted) report({ state: 'active', position });
        return 'continue';
      });
    } catch (error) {
      if (error instanceof WrongLog) throw error;
      if (error instanceof NewerTables) return leaveToNewer(deps, consumer, report);
      if (!(error instanceof CheckpointMoved) && !stop.aborted) {
        deps.logger.error(
          { err: error, consumer: consumer.name },
          'a consumer of the log has stopped; retrying in 5 s',
        );
        report({ state: 'failed', error: publicReason(error) });
        failed = true;
      }
    } finally {
      restart.end();
      lock.removeEventListener('abort', onLoss);
      await held.release();
    }
    // Sleeps after the release, so another process that reaches Postgres may take over.
    if (failed) await sleep(RETRY_AFTER_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** Leaves the tables of a consumer to the newer version that made them, and says so. */
export function leaveToNewer(
  { logger }: Pick<ConsumerDeps, 'logger'>,
  { name }: Consumer,
  report: (status: ConsumerStatus) => void,
): void {
  logger.warn(
    { consumer: name },
    'a newer version of Waybill made these tables; this process serves them, and leaves following ' +
      'the log to the newer version',
  );
  report({ state: 'left_to_newer' });
}

/**
 * Aborts its signal when the checkpoint of a running consumer was set back. A quiet log gives the
 * consumer nothing to save, so it would not notice before the next event.
 */
function watchRestarts(sql: Sql, { name, table }: Consumer) {
  const restarted = new AbortController();
  let reached = 0n;
  const look = async () => {
    const checkpoint = await loadCheckpoint(sql, table, name);
    if (checkpoint?.position === 0n && reached > 0n) restarted.abort();
  };
  const end = listen(
    sql,
    RESTART_CHANNEL,
    (restartedName) => restartedName === name && restarted.abort(),
    () => void look().catch(() => undefined),
  );
  return {
    signal: restarted.signal,
    end,
    passed(position: bigint): void {
      reached = position;
    },
  };
}

/**
 * Brings a consumer to the end of the log if no process runs it. Returns at once if one does. It
 * lets a command line, or an API process alone, read its own writes. Does nothing if a newer version
 * made the tables. Throws EventStoreUnavailable if the log sends nothing for ten seconds.
 */
export async function catchUpIfIdle(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal?: AbortSignal,
): Promise<void> {
  const held = await deps.locks.tryAcquire(lockOf(consumer.name));
  if (!held) return;
  const limit = silenceLimit(signal, held.signal);
  let done = false;
  try {
    await consume(deps, consumer, limit.signal, (_, caughtUp) => {
      done = caughtUp;
      limit.extend();
      return caughtUp ? 'stop' : 'continue';
    });
    if (!done && !signal?.aborted) throw notInTime(consumer.name);
  } catch (error) {
    if (!(error instanceof CheckpointMoved || error instanceof NewerTables)) throw error;
  } finally {
    limit.end();
    await held.release();
  }
}

/**
 * Reads from the checkpoint until the signal aborts or `afterBatch` says to stop. It calls
 * `afterBatch` when a batch is saved.
 */
async function consume(
  deps: ConsumerDeps,
  consumer: Consumer,
  signal: AbortSignal,
  afterBatch: (position: bigint, caughtUp: boolean) => 'continue' | 'stop',
): Promise<void> {
  const { name, table, version, streams, asStored, pauseMs, gatherMs } = consumer;
  const { pause: pauseFor = sleepUntil } = deps;
  await startCheckpoint(deps.sql, table, name, deps.logId, version);
  const checkpoint = await loadCheckpoint(deps.sql, table, name);
  if (!checkpoint) throw new CheckpointMoved(`${name} has no checkpoint`);
  if (checkpoint.version > version)
    throw new NewerTables(`a newer version of Waybill made the tables of ${name}`);
  const { generation } = checkpoint;
  let reached = await resumePosition(deps, table, name, checkpoint);
  let savedAt = performance.now();
  let savedTheEnd = false;
  const from = reached === 0n ? null : reached;
  const removed = createRemovedLeaves(deps.store, from, { looksOnce: true });
  /** Aborts when no batch is to follow: `afterBatch` said so, or a batch could not be saved. */
  const end = new AbortController();
  /** Saves the batches in their order. Rejects if one could not be saved. */
  let saving: Promise<void> = Promise.resolve();
  const inTurn = (step: () => Promise<void> | void) => {
    saving = saving.then(step);
    saving.catch(() => end.abort());
  };

  /** Prepares a batch, and has it saved. Returns the pause that follows; undefined for none. */
  async function take({ events: arrived, position: to, caughtUp }: EventBatch) {
    // Also at the first end: the log may be quiet from then on, and the position would look behind.
    const due =
      arrived.length > 0 ||
      performance.now() - savedAt > EMPTY_MOVES_MS ||
      (caughtUp && !savedTheEnd);
    let ahead = true;
    let gather = gatherMs;
    if (due && to > reached) {
      // An EventStoreDB may repeat events once its connection is back.
      const stored = arrived.filter(({ position }) => position > reached);
      const events = asStored ? stored : stored.map(upcast);
      const isInLog = deps.store.engine === 'postgres';
      const step = { generation, from: reached, to, isInLog };
      const prepared = await prepareBatch(deps.sql, consumer, events, removed, step);
      ahead = prepared.ahead ?? false;
      gather = prepared.gatherMs ?? gatherMs;
      const before = saving;
      before.catch(() => prepared.afterSave?.(false));
      inTurn(prepared.save);
      // One batch is prepared while another one is saved, and no more.
      await before;
      reached = to;
      savedAt = performance.now();
      savedTheEnd ||= caughtUp;
    }
    inTurn(() => {
      if (afterBatch(to, caughtUp) === 'stop') end.abort();
    });
    if (!ahead) await saving;
    if (!caughtUp || arrived.length === 0) return undefined;
    return arrived.length >= BUSY ? (pauseMs ?? gather) : gather;
  }

  try {
    const batches = deps.store.subscribe({
      from,
      signal: AbortSignal.any([signal, end.signal]),
      batchSize: consumer.batchSize ?? BATCH,
      streams,
    });
    for await (const batch of consumer.addsRemoved ? inSteps(batches, removed) : batches) {
      // The events must not stay in memory for the pause: the garbage collector would copy them.
      const pause = await take({ ...batch, events: batch.events.splice(0) });
      if (end.signal.aborted) break;
      if (pause !== undefined) await pauseFor(name, pause, signal);
    }
  } finally {
    await saving;
  }
}

const sleepUntil: Pause = (_, ms, signal) =>
  sleep(ms, undefined, { signal }).catch(() => undefined);
