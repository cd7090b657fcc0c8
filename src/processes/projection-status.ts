import type { EventStore } from '../adapters/event-store/port.ts';
import type { Sql } from '../adapters/postgres/connect.ts';
import type { Locks } from '../adapters/postgres/locks.ts';
import type { ProjectionName } from '../commands/deps.ts';
import { listCheckpoints } from '../projections/checkpoint.ts';
import { lockOf } from '../projections/consumer.ts';
import { PROJECTIONS } from '../projections/read-models.ts';
import { dispatchConsumer } from './jobs.ts';
import { TASKS_LOCK, type TaskKind } from './projection-tasks.ts';

const COUNTED_AT_MOST = 1_000;
const COUNTED_WITHIN_MS = 2_000;

export interface TaskStatus {
  /** `waiting`: no process has begun it, or the one that had is gone. */
  state: 'waiting' | 'running' | 'done' | 'failed';
  requested_by: string;
  requested_at: string;
  started_at: string | null;
  finished_at: string | null;
  events: number;
  /** Of the log that has been read, 0 to 1. */
  share: number;
  events_per_second: number | null;
  seconds_left: number | null;
  differences: string[] | null;
  error: string | null;
}

export interface ProjectionStatus {
  name: string;
  version: number;
  position: bigint;
  log_position: bigint;
  /** Events of its streams that it has not seen; a thousand are counted at most. */
  lag_events: number;
  /** Age of the oldest of them. */
  lag_seconds: number;
  /** A process follows the log for it. */
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

/** Every projection and process manager that follows the log, by name. */
export async function projectionStatus({ sql, store, locks }: Deps): Promise<ProjectionStatus[]> {
  const [checkpoints, tasks, head, worked] = await Promise.all([
    listCheckpoints(sql),
    sql<TaskRow[]>`select * from work.projection_tasks`,
    store.head(),
    locks.isHeld(TASKS_LOCK),
  ]);
  const taskOf = (name: string, kind: TaskKind) => {
    const row = tasks.find((task) => task.projection === name && task.kind === kind);
    return row ? toTask(row, worked) : null;
  };
  return Promise.all(
    checkpoints.map(async ({ updated_at, ...checkpoint }) => ({
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

type TaskRow = Omit<TaskStatus, 'state' | 'events'> & { projection: string; kind: TaskKind; events: bigint };

/** Nobody but the holder of the lock works on tasks: where there is none, nothing runs, whatever was noted last. */
function toTask({ projection: _, kind: __, events, ...task }: TaskRow, worked: boolean): TaskStatus {
  const open = task.started_at !== null && worked ? 'running' : 'waiting';
  const ended = task.error === null ? 'done' : 'failed';
  return { ...task, state: task.finished_at === null ? open : ended, events: Number(events) };
}

/** Positions are no count of what it has to do: they are those of all streams, and in an EventStoreDB of its bytes. */
async function lagOf(store: EventStore, name: string, position: bigint, head: bigint) {
  if (position >= head) return { lag_events: 0, lag_seconds: 0 };
  const done = new AbortController();
  const signal = AbortSignal.any([done.signal, AbortSignal.timeout(COUNTED_WITHIN_MS)]);
  const from = position === 0n ? null : position;
  let oldest: string | null = null;
  let events = 0;
  for await (const batch of store.subscribe({ from, signal, batchSize: COUNTED_AT_MOST, ...streamsOf(name) })) {
    oldest ??= batch.events[0]?.metadata.occurred_at ?? null;
    events += batch.events.length;
    if (batch.caughtUp || events >= COUNTED_AT_MOST) break;
  }
  done.abort();
  const seconds = oldest === null ? 0 : Math.max(0, (Date.now() - Date.parse(oldest)) / 1_000);
  return { lag_events: Math.min(events, COUNTED_AT_MOST), lag_seconds: Math.round(seconds * 10) / 10 };
}

function streamsOf(name: string): { streams?: string[] } {
  if (Object.hasOwn(PROJECTIONS, name)) return { streams: PROJECTIONS[name as ProjectionName].streams };
  return name === dispatchConsumer.name ? { streams: dispatchConsumer.streams } : {};
}
