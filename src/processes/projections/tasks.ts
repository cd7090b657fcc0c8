import type { Sql } from '../../adapters/postgres/connect.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import { aborted } from '../../concurrency/aborted.ts';
import { pause } from '../../concurrency/pause.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { rebuildProjection, verifyProjection } from '../../projections/rebuild/rebuild.ts';
import type { Comparison, RebuildProgress } from '../../projections/rebuild/shadow.ts';
import { dispatchConsumer, rebuildDispatch } from '../dispatch/consumer.ts';

/** The lock of the one process that works on requested tasks. */
export const TASKS_LOCK = 'projection tasks';
const CHANNEL = 'waybill_projection_tasks';
const POLL_MS = 5_000;
const SAVE_EVERY_MS = 250;

export type TaskKind = 'rebuild' | 'verify';
/** `dispatch`: the jobs of the movers. They can be rebuilt but not verified. */
export type TaskSubject = ProjectionName | 'dispatch';

interface Task {
  projection: TaskSubject;
  kind: TaskKind;
  started_at: string;
}

/** The last task of a kind for a projection. `share` of the log is read, 0 to 1. */
export interface TaskRow {
  projection: string;
  kind: TaskKind;
  requested_by: string;
  requested_at: string;
  started_at: string | null;
  finished_at: string | null;
  events: bigint;
  share: number;
  events_per_second: number | null;
  seconds_left: number | null;
  differences: string[] | null;
  error: string | null;
}

/**
 * Requests a task, which a process with the role `projector` performs. Does nothing if the same
 * task is already requested and not finished.
 */
export async function requestProjectionTask(
  sql: Sql,
  projection: TaskSubject,
  kind: TaskKind,
  actor: string,
): Promise<void> {
  await sql`
    insert into work.projection_tasks as t (projection, kind, requested_by)
    values (${projection}, ${kind}, ${actor})
    on conflict (projection, kind) do update set
      requested_by = excluded.requested_by, requested_at = now(),
      started_at = null, finished_at = null, events = 0, share = 0, events_per_second = null,
      seconds_left = null, differences = null, error = null
    where t.finished_at is not null`;
  await sql`select pg_notify(${CHANNEL}, '')`;
}

/**
 * Performs requested tasks one after the other, in one process of the installation, until the
 * signal aborts. If that process ends, the next one starts its unfinished task over.
 */
export async function runProjectionTasks(deps: ConsumerDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  signal.addEventListener('abort', wakeUp.wake);
  const unlisten = listen(deps.sql, CHANNEL, wakeUp.wake, wakeUp.wake);
  while (!signal.aborted) {
    const held = await deps.locks.acquire(TASKS_LOCK, signal).catch(() => null);
    if (!held) break;
    const stop = AbortSignal.any([signal, held.signal]);
    stop.addEventListener('abort', wakeUp.wake);
    let working: Promise<void> = Promise.resolve();
    while (!stop.aborted) {
      const task = await beginNext(deps.sql).catch((error: unknown) => {
        deps.logger.error({ err: error }, 'requested tasks could not be read; retrying in 5 s');
        return null;
      });
      if (task) {
        working = perform(deps, task, stop);
        await Promise.race([working, aborted(stop)]);
      } else await wakeUp.wait(POLL_MS);
    }
    // An interrupted task releases its own lock first: another process could not start it before.
    const released = working.then(() => held.release());
    if (!signal.aborted) await released;
  }
  unlisten();
}

/** Returns the rows of all requested tasks. */
export async function requestedTasks(sql: Sql): Promise<TaskRow[]> {
  return sql<TaskRow[]>`select * from work.projection_tasks`;
}

async function beginNext(sql: Sql): Promise<Task | null> {
  const [task] = await sql<Task[]>`
    update work.projection_tasks
       set started_at = date_trunc('milliseconds', clock_timestamp()), events = 0, share = 0
     where (projection, kind) = (
       select projection, kind from work.projection_tasks
        where finished_at is null order by requested_at limit 1)
    returning projection, kind, started_at`;
  return task ?? null;
}

/**
 * Performs a task and saves its outcome. Never throws. A task that `stop` or an unavailable store
 * interrupts stays open, so it starts over.
 */
async function perform(deps: ConsumerDeps, task: Task, stop: AbortSignal): Promise<void> {
  const { sql, logger } = deps;
  const row = sql`
    projection = ${task.projection} and kind = ${task.kind}
      and started_at = ${task.started_at} and finished_at is null`;
  let saving = false;
  let savedAt = Number.NEGATIVE_INFINITY;
  const save = ({ events, share, eventsPerSecond, secondsLeft }: RebuildProgress) => {
    if (saving || performance.now() - savedAt < SAVE_EVERY_MS) return;
    saving = true;
    savedAt = performance.now();
    void sql`
      update work.projection_tasks
         set events = ${events}, share = ${share}, events_per_second = ${eventsPerSecond},
             seconds_left = ${secondsLeft}
       where ${row}`
      .catch(() => undefined)
      .finally(() => {
        saving = false;
      });
  };
  try {
    const { events, compared, differences } = await run(deps, task, save);
    await sql`
      update work.projection_tasks
         set finished_at = now(), events = ${events}, share = 1, seconds_left = 0,
             differences = ${compared ? sql.json(differences) : null}
       where ${row}`;
  } catch (error) {
    if (stop.aborted) return;
    if (isStoreUnavailable(error)) {
      logger.warn(
        { err: error, projection: task.projection, kind: task.kind },
        'Postgres or the event store did not answer; restarting a projection task in 5 s',
      );
      await pause(POLL_MS, stop);
      return;
    }
    logger.error(
      { err: error, projection: task.projection, kind: task.kind },
      'a projection task failed',
    );
    await sql`
      update work.projection_tasks set finished_at = now(), error = ${(error as Error).message}
       where ${row}`.catch(() => undefined);
  }
}

async function run(
  deps: ConsumerDeps,
  { projection, kind }: Task,
  onProgress: (progress: RebuildProgress) => void,
): Promise<Comparison> {
  if (projection === dispatchConsumer.name) {
    await rebuildDispatch(deps.sql, deps.logId);
    return { events: 0, compared: false, differences: [], details: [] };
  }
  return kind === 'rebuild'
    ? rebuildProjection(deps, projection as ProjectionName, onProgress)
    : verifyProjection(deps, projection as ProjectionName, onProgress);
}
