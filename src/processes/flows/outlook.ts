import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Flow } from '../../domain/flow.ts';
import { progressOfRuns } from '../../projections/flow-queries.ts';
import { delaying, dueAt } from './schedule.ts';
import { lastLooks } from './table.ts';

/** What the last listing of a flow found, and when the next one is due. */
export interface Outlook {
  last_run_at: string | null;
  last_success_at: string | null;
  next_run_at: string | null;
  /** The open run that the next one waits for, if it is due. */
  delayed_by: string | null;
  waiting_files: number;
}

/** Returns the outlook of each flow, in their order. */
export async function outlooksOf(sql: Sql, flows: Flow[]): Promise<Outlook[]> {
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
    const due = dueAt(flow, look);
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
