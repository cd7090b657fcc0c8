import type { Sql } from '../adapters/postgres/connect.ts';
import { createBell } from '../bell.ts';
import type { ProjectionName } from '../commands/deps.ts';
import type { ConsumerDeps } from '../projections/consumer.ts';
import { type Comparison, type RebuildProgress, rebuildProjection, verifyProjection } from '../projections/rebuild.ts';
import { dispatchConsumer, rebuildDispatch } from './jobs.ts';

/** Held by the one process that works on what was asked for. */
export const TASKS_LOCK = 'projection tasks';
const CHANNEL = 'waybill_projection_tasks';
const LOOK_MS = 5_000;
const NOTED_EVERY_MS = 250;

export type TaskKind = 'rebuild' | 'verify';
/** `dispatch`: the to-do rows of the movers, which can be rebuilt only. */
export type TaskSubject = ProjectionName | 'dispatch';

interface Task {
  projection: TaskSubject;
  kind: TaskKind;
  started_at: string;
}

/** Asks for a task; it is done by a process with the role `projector`. Changes nothing where it has been asked for and is not done yet. */
export async function requestProjectionTask(sql: Sql, projection: TaskSubject, kind: TaskKind, actor: string): Promise<void> {
  await sql`
    insert into work.projection_tasks as t (projection, kind, requested_by) values (${projection}, ${kind}, ${actor})
    on conflict (projection, kind) do update set
      requested_by = excluded.requested_by, requested_at = now(), started_at = null, finished_at = null,
      events = 0, share = 0, events_per_second = null, seconds_left = null, differences = null, error = null
    where t.finished_at is not null`;
  await sql`select pg_notify(${CHANNEL}, '')`;
}

/**
 * Does what was asked for, one after the other, in one process of the installation, until the signal aborts. What a
 * process leaves unfinished the next one begins anew.
 */
export async function runProjectionTasks(deps: ConsumerDeps, signal: AbortSignal): Promise<void> {
  const bell = createBell();
  signal.addEventListener('abort', bell.ring);
  const listening = deps.sql.listen(CHANNEL, bell.ring, bell.ring);
  listening.catch((error: unknown) => deps.logger.warn({ err: error }, 'projection tasks are looked for every few seconds only'));
  while (!signal.aborted) {
    const held = await deps.locks.acquire(TASKS_LOCK, signal).catch(() => null);
    if (!held) break;
    const stop = AbortSignal.any([signal, held.signal]);
    stop.addEventListener('abort', bell.ring);
    let working: Promise<void> = Promise.resolve();
    while (!stop.aborted) {
      const task = await beginNext(deps.sql).catch(() => null);
      if (task) {
        working = perform(deps, task, stop);
        await Promise.race([working, aborted(stop)]);
      } else await bell.wait(LOOK_MS);
    }
    // What is cut off by a shutdown keeps the lock until it has let go of its own: the next process could not begin it before.
    const released = working.then(() => held.release());
    if (!signal.aborted) await released;
  }
  await listening.then(({ unlisten }) => unlisten()).catch(() => undefined);
}

async function beginNext(sql: Sql): Promise<Task | null> {
  const [task] = await sql<Task[]>`
    update work.projection_tasks set started_at = date_trunc('milliseconds', clock_timestamp()), events = 0, share = 0
     where (projection, kind) = (
       select projection, kind from work.projection_tasks where finished_at is null order by requested_at limit 1)
    returning projection, kind, started_at`;
  return task ?? null;
}

/** Never throws. What is cut off by the end of the process stays unfinished. */
async function perform(deps: ConsumerDeps, task: Task, stop: AbortSignal): Promise<void> {
  const { sql, logger } = deps;
  const mine = sql`projection = ${task.projection} and kind = ${task.kind} and started_at = ${task.started_at} and finished_at is null`;
  let noting = false;
  let notedAt = Number.NEGATIVE_INFINITY;
  const note = ({ events, share, eventsPerSecond, secondsLeft }: RebuildProgress) => {
    if (noting || performance.now() - notedAt < NOTED_EVERY_MS) return;
    noting = true;
    notedAt = performance.now();
    void sql`
      update work.projection_tasks
         set events = ${events}, share = ${share}, events_per_second = ${eventsPerSecond}, seconds_left = ${secondsLeft} where ${mine}`
      .catch(() => undefined)
      .finally(() => {
        noting = false;
      });
  };
  try {
    const { events, differences } = await run(deps, task, note);
    await sql`
      update work.projection_tasks
         set finished_at = now(), events = ${events}, share = 1, seconds_left = 0, differences = ${sql.json(differences)} where ${mine}`;
  } catch (error) {
    if (stop.aborted) return;
    logger.error({ err: error, projection: task.projection, kind: task.kind }, 'a projection task failed');
    await sql`update work.projection_tasks set finished_at = now(), error = ${(error as Error).message} where ${mine}`.catch(
      () => undefined,
    );
  }
}

async function run(deps: ConsumerDeps, { projection, kind }: Task, note: (progress: RebuildProgress) => void): Promise<Comparison> {
  if (projection === dispatchConsumer.name) {
    await rebuildDispatch(deps.sql, deps.logId);
    return { events: 0, differences: [] };
  }
  return kind === 'rebuild'
    ? rebuildProjection(deps, projection as ProjectionName, note)
    : verifyProjection(deps, projection as ProjectionName, note);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
