import type { Flow, OpenRun } from '../../domain/flow.ts';
import { nextRun } from '../../domain/flow-trigger.ts';
import type { RunProgress } from '../../projections/flow-queries.ts';
import type { Look } from './table.ts';

/**
 * Returns when a flow is listed next, in epoch ms: now or earlier if it is due. Null if only a request
 * can make it run. Runs that were missed count as one, because the trigger counts from the last one.
 */
export function dueAt(flow: Flow, look: Look | null): number | null {
  const { status, trigger, requested, skipping, open_runs, scheduled_from } = flow;
  if (skipping !== null || open_runs.some(({ listed }) => !listed)) return 0;
  if (status === 'removed') return null;
  if (requested !== null) return 0;
  if (status === 'paused') return null;
  const from = Math.max(Date.parse(scheduled_from), Date.parse(look?.began_at ?? scheduled_from));
  const again = look?.look_again_at ? Date.parse(look.look_again_at) : Number.POSITIVE_INFINITY;
  const scheduled = trigger && 'every' in trigger && isFirst(flow, look) ? from : null;
  const next = scheduled ?? (trigger && nextRun(trigger, new Date(from))?.getTime()) ?? null;
  const first = Math.min(again, next ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(first) ? first : null;
}

/** Returns true if the trigger has caused no run since the flow was created, changed or resumed. */
function isFirst({ scheduled_from }: Flow, look: Look | null): boolean {
  return look === null || Date.parse(look.began_at) < Date.parse(scheduled_from);
}

/**
 * Returns the open run that the next one waits for: one whose files move. Null if there is none. A run
 * whose files only wait for another attempt delays nothing.
 */
export function delaying(flow: Flow, progress: Map<string, RunProgress>): OpenRun | null {
  return (
    flow.open_runs.find(
      ({ listed, batch_id }) => listed && (progress.get(batch_id)?.moving ?? true),
    ) ?? null
  );
}
