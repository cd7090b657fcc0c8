import { type EventStore, EventStoreUnavailable } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Locks } from '../../adapters/postgres/locks.ts';
import { LAG_COUNTED_TO } from '../../contract/projections.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { listCheckpoints } from '../../projections/checkpoint.ts';
import { lockOf } from '../../projections/consumer.ts';
import { PROJECTIONS } from '../../projections/read-models.ts';
import { dispatchConsumer } from '../dispatch/consumer.ts';
import { requestedTasks, TASKS_LOCK, type TaskKind, type TaskRow } from './tasks.ts';

/** The count of the lag also stops after this time. */
const COUNT_TIMEOUT_MS = 5_000;

export interface TaskStatus extends Omit<TaskRow, 'projection' | 'kind' | 'events'> {
  /** `waiting`: no process has started the task, or the process that did is gone. */
  state: 'waiting' | 'running' | 'done' | 'failed';
  events: number;
}

export interface ProjectionStatus {
  name: string;
  version: number;
  position: bigint;
  log_position: bigint;
  /** Unprocessed events of its streams, counted to `LAG_COUNTED_TO`. */
  lag_events: number;
  /** Age of the oldest unprocessed event. */
  lag_seconds: number;
  /** True if a process follows the log for it. */
  running: boolean;
  moved_at: string;
  rebuild: TaskStatus | null;
  verify: TaskStatus | null;
}

interface Deps {
  sql: Sql;
  store: EventStore;
  locks: Locks;
}

/**
 * Returns the status of all projections and process managers, sorted by name, or only of the one
 * with this name.
 */
export async function projectionStatus(
  { sql, store, locks }: Deps,
  only?: string,
): Promise<ProjectionStatus[]> {
  const [checkpoints, tasks, head, workerActive] = await Promise.all([
    listCheckpoints(sql),
    requestedTasks(sql),
    store.head(),
    locks.isHeld(TASKS_LOCK),
  ]);
  const taskOf = (name: string, kind: TaskKind) => {
    const row = tasks.find((task) => task.projection === name && task.kind === kind);
    return row ? toTask(row, workerActive) : null;
  };
  const wanted = checkpoints.filter(({ name }) => only === undefined || name === only);
  return Promise.all(
    wanted.map(async ({ updated_at, ...checkpoint }) => ({
      ...checkpoint,
      moved_at: updated_at,
      log_position: head ?? 0n,
      ...(await lagOf(store, checkpoint.name, checkpoint.position, head ?? 0n)),
      running: await locks.isHeld(lockOf(checkpoint.name)),
      rebuild: taskOf(checkpoint.name, 'rebuild'),
      verify: taskOf(checkpoint.name, 'verify'),
    })),
  );
}

/** Only the lock's holder works on tasks. Without a holder no task runs, whatever its row says. */
function toTask(
  { projection: _, kind: __, events, ...task }: TaskRow,
  workerActive: boolean,
): TaskStatus {
  const open = task.started_at !== null && workerActive ? 'running' : 'waiting';
  const ended = task.error === null ? 'done' : 'failed';
  return { ...task, state: task.finished_at === null ? open : ended, events: Number(events) };
}

/**
 * Counts the events that a consumer has not processed. Positions do not give that number: they
 * cover all streams, and in EventStoreDB they count bytes.
 */
async function lagOf(store: EventStore, name: string, position: bigint, head: bigint) {
  if (position >= head) return { lag_events: 0, lag_seconds: 0 };
  const done = new AbortController();
  const timeout = AbortSignal.timeout(COUNT_TIMEOUT_MS);
  const signal = AbortSignal.any([done.signal, timeout]);
  const from = position === 0n ? null : position;
  let oldest: string | null = null;
  let events = 0;
  try {
    for await (const batch of store.subscribe({
      from,
      signal,
      batchSize: LAG_COUNTED_TO,
      ...streamsOf(name),
    })) {
      oldest ??= batch.events[0]?.metadata.occurred_at ?? null;
      events += batch.events.length;
      if (batch.caughtUp || events >= LAG_COUNTED_TO) break;
    }
  } catch (error) {
    if (!timeout.aborted) throw error;
  } finally {
    done.abort();
  }
  if (timeout.aborted && events === 0)
    throw new EventStoreUnavailable('The event store did not give the unprocessed events in time');
  const seconds = oldest === null ? 0 : Math.max(0, (Date.now() - Date.parse(oldest)) / 1_000);
  return {
    lag_events: Math.min(events, LAG_COUNTED_TO),
    lag_seconds: Math.round(seconds * 10) / 10,
  };
}

function streamsOf(name: string): { streams?: string[] } {
  if (Object.hasOwn(PROJECTIONS, name))
    return { streams: PROJECTIONS[name as ProjectionName].streams };
  return name === dispatchConsumer.name ? { streams: dispatchConsumer.streams } : {};
}
