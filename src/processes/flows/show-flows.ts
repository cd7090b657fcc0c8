import type { Sql } from '../../adapters/postgres/connect.ts';
import type { FlowAnswer } from '../../contract/flows/answers.ts';
import { type FlowOutlook, toFlow } from '../../contract/flows/views.ts';
import type { Flow } from '../../domain/flows/flow.ts';
import { lastRuns, progressOfRuns } from '../../projections/flows/queries.ts';
import { delaying, dueAt } from './schedule.ts';
import { lastLooks } from './table.ts';

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
    const due = dueAt(flow, look, now);
    const isDue = due !== null && due <= now;
    return {
      last_run_at: look?.began_at ?? null,
      last_success_at: look?.succeeded_at ?? null,
      next_run_at: due === null ? null : new Date(isDue ? now : due).toISOString(),
      delayed_by: isDue ? (delaying(flow, byBatch)?.run_id ?? null) : null,
      waiting_files: look?.waiting ?? 0,
    };
  });
}
