/*
 * The process manager of flows. Its to-do list is the read model of flows: those that are active,
 * were asked for a run, or have an open run. One process of the installation works on them at a
 * time.
 *
 * - A flow whose time has come (schedule.ts) is listed (run.ts). If there is a file to take, the
 *   run starts: `flow.run_started` names a batch, and the files become its items, page by page.
 *   Then the process manager of batches creates the transfers. A listing that takes nothing has no
 *   event.
 * - When the batch of a run has ended, it appends `flow.run_completed`.
 *
 * Why no version of a file is taken twice:
 * - A run compares the files of the folder with the read model at a revision of the flow, and
 *   starts at that revision. If another process has started a run since, its append is rejected.
 *   The read model shows all files of earlier runs at that revision, because `flow.run_listed`
 *   follows the pages of a run, and no run starts before that of the last one.
 * - The pages of a batch are appended at a revision too. A process that continues a run waits until
 *   the read model shows them, and continues after the last path. A process that has started a run
 *   and finds that another one has created the batch leaves the run to the next look.
 *
 * What can go wrong:
 * - The process ends, or loses the lock, at any point. The open run is in the log: the next process
 *   continues it.
 * - A folder cannot be listed. `flow.run_failed` says so once; the files of other folders are
 *   taken.
 * - A `new_only` flow cannot list the folder whose files it is to skip. It looks again after 5 s, and
 *   then after twice the last wait, five minutes at most.
 * - A store is unavailable, or one flow fails. It is set aside for a moment, and the others
 *   continue.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from '../../adapters/postgres/listen.ts';
import { changeFlow, outcomeOf, withLast } from '../../commands/flows.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import type { BatchCompleted } from '../../domain/batches/batch.ts';
import { streamName } from '../../domain/events/streams.ts';
import type { Flow, OpenRun, ShownFlow } from '../../domain/flows/flow.ts';
import { CHECKPOINT_CHANNEL } from '../../projections/checkpoint.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { flowsAtWork, progressOfRuns, type RunProgress } from '../../projections/flows/queries.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { untilCaughtUp } from '../../projections/until-caught-up.ts';
import { inOneProcess } from '../in-one-process.ts';
import { causeOf, type RunDeps, runFlow } from './run.ts';
import { delaying, dueAt, nextTurn, type Turn } from './schedule.ts';
import { lastLooks } from './table.ts';

/** Time between two looks, while there is news. */
const LOOK_MS = 500;
/** How long without news, unless a flow is due before. */
const QUIET_MS = 5_000;
const SET_ASIDE_MS = 5_000;

export type FlowManagerDeps = RunDeps & ConsumerDeps;

/** Works on flows until the signal aborts, if no other process does. */
export async function runFlows(deps: FlowManagerDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, CHECKPOINT_CHANNEL, (payload) => {
    if (payload.startsWith('flows:')) wakeUp.wake();
  });
  signal.addEventListener('abort', wakeUp.wake);
  // A catalog that is being filled lacks endpoints. A run would fail without the endpoint of its
  // flow.
  await untilCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog), signal);
  await inOneProcess(deps.locks, 'flows', signal, async (held) => {
    const round = new AbortController();
    const stop = AbortSignal.any([held, round.signal]);
    const running: Running = new Map();
    const begun = new Map<string, number>();
    const seen: Seen = new Map();
    try {
      while (!stop.aborted) {
        const due = await takeUp(deps, { running, begun, seen }, wakeUp.wake, stop);
        await sleep(LOOK_MS, undefined, { signal: stop }).catch(() => undefined);
        await wakeUp.wait(Math.max(0, Math.min(QUIET_MS, due - Date.now())));
      }
    } catch (error) {
      deps.logger.error({ err: error }, 'flows could not be processed; retrying in 5 s');
      await sleep(SET_ASIDE_MS, undefined, { signal }).catch(() => undefined);
    } finally {
      round.abort();
      await Promise.all([...running.values()].map(({ done }) => done));
    }
  });
  unlisten();
}

/** The work that is under way, by flow. */
type Running = Map<string, { listing: Turn | null; done: Promise<void> }>;

/** When each flow was first seen with its `scheduled_from`, in epoch ms. */
type Seen = Map<string, { scheduledFrom: string; at: number }>;

interface Memory {
  running: Running;
  /** The time of the last listing of each flow, in epoch ms. */
  begun: Map<string, number>;
  seen: Seen;
}

/**
 * Starts what each flow needs now, unless it is under way. Returns when the next flow is due, in
 * epoch ms, infinite if none is.
 */
async function takeUp(
  deps: FlowManagerDeps,
  { running, begun, seen }: Memory,
  onEnd: () => void,
  stop: AbortSignal,
): Promise<number> {
  const flows = await flowsAtWork(deps.sql);
  const ids = flows.map(({ state }) => state.flow_id);
  const batches = flows.flatMap(({ state }) => state.open_runs.map(({ batch_id }) => batch_id));
  const [looks, progress] = await Promise.all([
    lastLooks(deps.sql, ids),
    progressOfRuns(deps.sql, batches),
  ]);
  const byBatch = new Map(progress.map((one) => [one.batch_id, one]));
  const known = new Set(ids);
  for (const times of [begun, seen])
    for (const id of times.keys()) if (!known.has(id)) times.delete(id);

  function start({ state }: ShownFlow, listing: Turn | null, work: Promise<void>): void {
    const { flow_id } = state;
    const done = work
      .catch(async (error: unknown) => {
        if (stop.aborted) return;
        deps.logger.error(
          { err: error, flow_id },
          'a flow could not be processed; retrying in 5 s',
        );
        await sleep(SET_ASIDE_MS, undefined, { signal: stop }).catch(() => undefined);
      })
      .finally(() => {
        running.delete(flow_id);
        onEnd();
      });
    running.set(flow_id, { listing, done });
  }

  let next = Number.POSITIVE_INFINITY;
  const waiting: (Turn & { flow: ShownFlow })[] = [];
  for (const flow of flows) {
    const { flow_id, account_id: accountId } = flow.state;
    const now = Date.now();
    const due = dueAt(flow.state, looks.get(flow_id) ?? null, now, seenAt(seen, flow.state, now));
    const isDue = due !== null && due <= now;
    // One that is due and does not start waits for news.
    if (due !== null && !isDue) next = Math.min(next, due);
    if (running.has(flow_id)) continue;
    const ended = endedRuns(flow.state, byBatch);
    if (ended.length > 0) start(flow, null, complete(deps, flow, ended));
    else if (isDue && !isDelayed(flow.state, byBatch))
      waiting.push({ flow, accountId, since: Math.max(due, begun.get(flow_id) ?? 0) });
  }
  for (;;) {
    const turn = nextTurn(waiting, listings(running));
    if (turn === null) return next;
    waiting.splice(waiting.indexOf(turn), 1);
    begun.set(turn.flow.state.flow_id, Date.now());
    start(turn.flow, turn, list(deps, turn.flow, stop));
  }
}

/** Returns when a flow was first seen with its `scheduled_from`: now, if it was not yet. */
function seenAt(seen: Seen, { flow_id, scheduled_from }: Flow, now: number): number {
  const before = seen.get(flow_id);
  if (before?.scheduledFrom === scheduled_from) return before.at;
  seen.set(flow_id, { scheduledFrom: scheduled_from, at: now });
  return now;
}

function listings(running: Running): Turn[] {
  return [...running.values()].flatMap(({ listing }) => listing ?? []);
}

async function list(deps: FlowManagerDeps, flow: ShownFlow, stop: AbortSignal): Promise<void> {
  return runFlow(deps, await withLast(deps.commands, flow), stop);
}

/** Returns the open runs whose batches have ended, with the revision of the end. */
function endedRuns(state: Flow, progress: Map<string, RunProgress>) {
  return state.open_runs.flatMap((run) => {
    const revision = progress.get(run.batch_id)?.completed_at_revision ?? null;
    return run.listed && revision !== null ? { run, revision } : [];
  });
}

/** A run that is still listed is continued, so nothing delays it. */
function isDelayed(state: Flow, progress: Map<string, RunProgress>): boolean {
  return state.open_runs.every(({ listed }) => listed) && delaying(state, progress) !== null;
}

async function complete(
  { commands }: FlowManagerDeps,
  flow: ShownFlow,
  ended: { run: OpenRun; revision: number }[],
): Promise<void> {
  let known = await withLast(commands, flow);
  for (const { run, revision } of ended) {
    const stream = streamName('batch', run.batch_id);
    const [event] = await commands.store.read(stream, revision, 1);
    if (event?.type !== 'batch.completed') continue;
    const outcome = outcomeOf(event.data as BatchCompleted);
    const command = { type: 'complete_run', run_id: run.run_id, outcome } as const;
    const cause = { ...causeOf(flow.state, run.run_id), causationId: event.id };
    known = await changeFlow(commands, flow.state.flow_id, command, cause, { known });
  }
  await commands.waitFor('flows', known.position);
}
