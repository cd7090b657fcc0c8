/*
 * The process manager of flows. Its to-do list is the read model of flows: those that are active,
 * were asked for a run, or have an open run. process-manager.ts looks at it, in one process of the
 * installation at a time.
 *
 * - A flow whose time has come (schedule.ts) is listed (run.ts). If there is a file to take, the
 *   run starts: `flow.run_started` names a batch, and the files become its items, page by page.
 *   Then the process manager of batches creates the transfers. A listing that takes nothing has no
 *   event.
 * - When the batch of a run has ended, it appends `flow.run_completed`. If files have failed, a look
 *   a minute later may take them again, whatever the trigger says.
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
 */
import { changeFlow, outcomeOf, withLast } from '../../commands/flows.ts';
import type { BatchCompleted } from '../../domain/batches/batch.ts';
import { streamName } from '../../domain/events/streams.ts';
import type { Flow, OpenRun, ShownFlow } from '../../domain/flows/flow.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { flowsAtWork, progressOfRuns, type RunProgress } from '../../projections/flows/queries.ts';
import { runProcessManager, type UnderWay } from '../process-manager.ts';
import { RETRY_AFTER_MS } from './examine.ts';
import { causeOf, type RunDeps, runFlow } from './run.ts';
import { delaying, dueAt, nextTurn, type Turn } from './schedule.ts';
import { lastLooks, lookBy } from './table.ts';

export type FlowManagerDeps = RunDeps & ConsumerDeps;

/** Works on flows until the signal aborts, if no other process does. */
export function runFlows(deps: FlowManagerDeps, signal: AbortSignal): Promise<void> {
  return runProcessManager<Work>(
    deps,
    {
      subject: { one: 'flow', all: 'flows' },
      isNews: (payload) => payload.startsWith('flows:'),
      begin(underWay) {
        const memory: Memory = { begun: new Map(), seen: new Map() };
        return () => takeUp(deps, underWay, memory);
      },
    },
    signal,
  );
}

/** Work on a flow that is under way. `listing` is null if it ends runs. */
interface Work {
  listing: Turn | null;
}

/** What this process remembers of flows while it works. */
interface Memory {
  /** The time of the last listing of each flow, in epoch ms. */
  begun: Map<string, number>;
  /** When each flow was first seen with its `scheduled_from`, in epoch ms. */
  seen: Map<string, { scheduledFrom: string; at: number }>;
}

/**
 * Starts what each flow needs now, unless it is under way. Returns when the next flow is due, in
 * epoch ms, infinite if none is.
 */
async function takeUp(
  deps: FlowManagerDeps,
  underWay: UnderWay<Work>,
  { begun, seen }: Memory,
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

  let next = Number.POSITIVE_INFINITY;
  const waiting: (Turn & { flow: ShownFlow })[] = [];
  for (const flow of flows) {
    const { flow_id, account_id: accountId } = flow.state;
    const now = Date.now();
    const due = dueAt(flow.state, looks.get(flow_id) ?? null, now, seenAt(seen, flow.state, now));
    const isDue = due !== null && due <= now;
    // One that is due and does not start waits for news.
    if (due !== null && !isDue) next = Math.min(next, due);
    if (underWay.get(flow_id)) continue;
    const ended = endedRuns(flow.state, byBatch);
    if (ended.length > 0)
      underWay.start(flow_id, { listing: null }, () => complete(deps, flow, ended));
    else if (isDue && !isDelayed(flow.state, byBatch))
      waiting.push({ flow, accountId, since: Math.max(due, begun.get(flow_id) ?? 0) });
  }
  for (;;) {
    const turn = nextTurn(
      waiting,
      underWay.all().flatMap(({ listing }) => listing ?? []),
    );
    if (turn === null) return next;
    waiting.splice(waiting.indexOf(turn), 1);
    const { flow_id } = turn.flow.state;
    begun.set(flow_id, Date.now());
    underWay.start(flow_id, { listing: turn }, (stop) => list(deps, turn.flow, stop));
  }
}

/** Returns when a flow was first seen with its `scheduled_from`: now, if it was not yet. */
function seenAt(seen: Memory['seen'], { flow_id, scheduled_from }: Flow, now: number): number {
  const before = seen.get(flow_id);
  if (before?.scheduledFrom === scheduled_from) return before.at;
  seen.set(flow_id, { scheduledFrom: scheduled_from, at: now });
  return now;
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
  { sql, commands }: FlowManagerDeps,
  flow: ShownFlow,
  ended: { run: OpenRun; revision: number }[],
): Promise<void> {
  let known = await withLast(commands, flow);
  for (const { run, revision } of ended) {
    const stream = streamName('batch', run.batch_id);
    const [event] = await commands.store.read(stream, revision, 1);
    if (event?.type !== 'batch.completed') continue;
    const outcome = outcomeOf(event.data as BatchCompleted);
    // Before the run is complete, so that no process forgets it.
    if (outcome.counts.failed > 0) {
      const again = new Date(Date.parse(outcome.ended_at) + RETRY_AFTER_MS[0]);
      await lookBy(sql, flow.state.flow_id, again.toISOString());
    }
    const command = { type: 'complete_run', run_id: run.run_id, outcome } as const;
    const cause = { ...causeOf(flow.state, run.run_id), causationId: event.id };
    known = await changeFlow(commands, flow.state.flow_id, command, cause, { known });
  }
  await commands.waitFor('flows', known.position);
}
