import type { Sql } from '../../adapters/postgres/connect.ts';
import type { FlowAnswer } from '../../contract/flows/answers.ts';
import { type FlowOutlook, toFlow } from '../../contract/flows/views.ts';
import type { Flow } from '../../domain/flows/flow.ts';
import { flowsAtWork, lastRuns, progressOfRuns } from '../../projections/flows/queries.ts';
import { delaying, dueAt } from './schedule.ts';
import { type Look, lastLooks } from './table.ts';

/** Runs that a flow is shown with. */
const RUNS_SHOWN = 20;

/** Returns flows as clients see them, with their last runs, in their order. */
export async function showFlows(sql: Sql, flows: Flow[]): Promise<FlowAnswer[]> {
  const ids = flows.map(({ flow_id }) => flow_id);
  const [outlooks, runs] = await Promise.all([
    outlooksOf(sql, flows),
    lastRuns(sql, ids, RUNS_SHOWN),
  ]);
  return flows.map((flow, i) =>
    toFlow(flow, outlooks[i] as FlowOutlook, runs.get(flow.flow_id) ?? []),
  );
}

export async function showFlow(sql: Sql, flow: Flow): Promise<FlowAnswer> {
  const [answer] = await showFlows(sql, [flow]);
  return answer as FlowAnswer;
}

/** Returns the outlook of each flow, in their order. */
async function outlooksOf(sql: Sql, flows: Flow[]): Promise<FlowOutlook[]> {
  const batches = flows.flatMap(({ open_runs }) => open_runs.map(({ batch_id }) => batch_id));
  const [looks, progress] = await Promise.all([
    lastLooks(
      sql,
      flows.map(({ flow_id }) => flow_id),
    ),
    progressOfRuns(sql, batches),
  ]);
  const byBatch = new Map(progress.map((one) => [one.batch_id, one]));
  const now = Date.now();
  return flows.map((flow) => {
    const look = looks.get(flow.flow_id) ?? null;
    const due = dueAt(flow, look, now, seenAt(flow, look, now));
    const isDue = due !== null && due <= now;
    return {
      last_run_at: look?.began_at ?? null,
      last_success_at: look?.succeeded_at ?? null,
      next_run_at: nextRunAt(flow, due),
      delayed_by: isDue ? (delaying(flow, byBatch)?.run_id ?? null) : null,
      waiting_files: look?.waiting ?? 0,
    };
  });
}

/**
 * Returns when the process that lists a flow saw it, as far as others know: at its look at the
 * latest, if the time from which the trigger counts is still to come.
 */
function seenAt({ scheduled_from }: Flow, look: Look | null, now: number): number {
  return look && Date.parse(scheduled_from) > now ? Math.min(Date.parse(look.began_at), now) : now;
}

/**
 * Returns when a flow runs next, or since when a run is due. `due` is 0 for what a flow does at
 * once. Null if no run follows, or while one is listed.
 */
function nextRunAt({ requested }: Flow, due: number | null): string | null {
  return due === null || due > 0 ? isoOf(due) : (requested?.requested_at ?? null);
}

function isoOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** By how much a run of a flow is late. */
export interface FlowDelay {
  flow_id: string;
  name: string;
  /** 0 if no run is due, or if the run before still moves files. */
  seconds: number;
}

/** Returns the delays of all flows that may have work, of every account. */
export async function flowDelays(sql: Sql): Promise<FlowDelay[]> {
  const flows = (await flowsAtWork(sql))
    .map(({ state }) => state)
    .filter(({ status }) => status !== 'removed');
  const outlooks = await outlooksOf(sql, flows);
  return flows.map(({ flow_id, name }, i) => {
    const { next_run_at, delayed_by } = outlooks[i] as FlowOutlook;
    const isDue = next_run_at !== null && delayed_by === null;
    const seconds = isDue ? Math.max(0, Date.now() - Date.parse(next_run_at)) / 1_000 : 0;
    return { flow_id, name, seconds };
  });
}
