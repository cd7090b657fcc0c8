/*
 * Runs a named consumer of the event log: a projection or a process manager. consume.ts reads the
 * log for it.
 *
 * A consumer changes its rows and its checkpoint in one transaction. It moves no file and appends no
 * event. So a crash repeats a whole batch or nothing. Only the outbox has requests made meanwhile,
 * which may be repeated (processes/webhooks/deliverer/first-attempts.ts).
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
 */
import type { Sql } from '../adapters/postgres/connect.ts';
import { listen } from '../adapters/postgres/listen.ts';
import type { Held } from '../adapters/postgres/locks.ts';
import { pause } from '../concurrency/pause.ts';
import {
  CheckpointMoved,
  loadCheckpoint,
  NewerTables,
  RESTART_CHANNEL,
  WrongLog,
} from './checkpoint.ts';
import { consume } from './consume.ts';
import {
  type Consumer,
  type ConsumerDeps,
  type ConsumerStatus,
  lockOf,
  publicReason,
} from './consumer.ts';
import { notInTime, silenceLimit } from './read-to-end.ts';

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
    const held = await acquireLock(deps, consumer, failed, signal, report);
    if (!held) return;
    const end = await runWhileHeld(deps, consumer, held, signal, report);
    if (end === 'left_to_newer') return;
    failed = end === 'failed';
    // Sleeps after the release, so another process that reaches Postgres may take over.
    if (failed) await pause(RETRY_AFTER_MS, signal);
  }
}

/**
 * Waits for the lock of a consumer. Returns null if the signal aborts. A failed consumer stays
 * `failed` in every report until it makes progress or another process takes over.
 */
async function acquireLock(
  { locks }: ConsumerDeps,
  { name }: Consumer,
  failed: boolean,
  signal: AbortSignal,
  report: (status: ConsumerStatus) => void,
): Promise<Held | null> {
  const held = failed ? await locks.tryAcquire(lockOf(name)).catch(() => null) : null;
  if (held) return held;
  report({ state: 'stand_by' });
  return locks.acquire(lockOf(name), signal).catch((error: unknown) => {
    if (signal.aborted) return null;
    throw error;
  });
}

/** Follows the log until the signal aborts, the lock is lost, or an error ends it. */
async function runWhileHeld(
  deps: ConsumerDeps,
  consumer: Consumer,
  held: Held,
  signal: AbortSignal,
  report: (status: ConsumerStatus) => void,
): Promise<'ended' | 'failed' | 'left_to_newer'> {
  const { logger } = deps;
  const lock: AbortSignal = held.signal;
  const restart = watchRestarts(deps.sql, consumer);
  const stop = AbortSignal.any([signal, lock, restart.signal]);
  // Reported at once: the open transaction may wait another minute for its answer.
  const onLoss = () => {
    if (signal.aborted) return;
    logger.warn(
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
    return 'ended';
  } catch (error) {
    if (error instanceof WrongLog) throw error;
    if (error instanceof NewerTables) {
      leaveToNewer(deps, consumer, report);
      return 'left_to_newer';
    }
    if (error instanceof CheckpointMoved || stop.aborted) return 'ended';
    logger.error(
      { err: error, consumer: consumer.name },
      'a consumer of the log has stopped; retrying in 5 s',
    );
    report({ state: 'failed', error: publicReason(error) });
    return 'failed';
  } finally {
    restart.end();
    lock.removeEventListener('abort', onLoss);
    await held.release();
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
