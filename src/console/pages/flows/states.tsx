import { isOverdue } from '../../../domain/attention.ts';
import type { Flow, FlowRun } from '../../api/api-types.ts';
import { Strip } from '../../components/charts/strip.tsx';
import { Status, type Tone } from '../../components/values/status.tsx';
import { distance, Time } from '../../components/values/time.tsx';
import { inWords, many } from '../../components/values/units.ts';

const RUNS: Record<FlowRun['status'], { label: string; tone: Tone }> = {
  requested: { label: 'Requested', tone: 'neutral' },
  listing: { label: 'Listing', tone: 'active' },
  open: { label: 'Open', tone: 'active' },
  completed: { label: 'Completed', tone: 'good' },
  completed_with_failures: { label: 'Completed with failures', tone: 'bad' },
  cancelled: { label: 'Cancelled', tone: 'warning' },
  empty: { label: 'Found nothing', tone: 'neutral' },
  failed: { label: 'Failed', tone: 'bad' },
};

/** Runs in the strip of a flow. */
const IN_STRIP = 12;

export function RunState({ status }: Pick<FlowRun, 'status'>) {
  const { label, tone } = RUNS[status];
  return <Status tone={tone}>{label}</Status>;
}

export function FlowState({ flow: { status, failing } }: { flow: Flow }) {
  if (failing) return <Status tone="bad">Failing</Status>;
  return status === 'paused' ? (
    <Status tone="warning">Paused</Status>
  ) : (
    <Status tone="good">Active</Status>
  );
}

/** The last runs that took files or failed, oldest first: one mark for each. */
export function RunStrip({ runs }: { runs: FlowRun[] }) {
  const marks = runs
    .slice(0, IN_STRIP)
    .reverse()
    .map(({ id, status, started_at, counts }) => {
      const { label, tone } = RUNS[status];
      const files = counts ? `, ${many(counts.files, 'file')}` : '';
      return { id, tone, text: `${label}${files}, ${distance(started_at)}` };
    });
  return <Strip label="Recent runs, oldest first" marks={marks} />;
}

/** Shows when a flow runs next. While a run is due, the API has the time since which it is. */
export function NextRun({ flow: { next_run_at, delayed_by } }: { flow: Flow }) {
  if (next_run_at === null || Date.parse(next_run_at) > Date.now())
    return <Time at={next_run_at} />;
  if (delayed_by !== null) return <>When the open run ends</>;
  if (!isOverdue(next_run_at)) return <>Now</>;
  return (
    <>
      Due since <Time at={next_run_at} />
    </>
  );
}

/** Returns when a flow runs, in words. */
export function triggerOf({ trigger }: Flow): string {
  if (trigger === null) return 'On request';
  if (trigger.every) return `Every ${inWords(trigger.every).replace(/^1 /, '')}`;
  return `${trigger.cron} (${trigger.time_zone})`;
}

/** Returns when a file of a flow is ready, in words. */
export function readyOf({ ready: { unchanged_for, marker } }: Flow): string {
  return unchanged_for === null
    ? `With its ${marker} file`
    : `Unchanged for ${inWords(unchanged_for)}`;
}
