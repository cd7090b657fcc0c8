import type { Batch } from '../../api/api-types.ts';
import { Shares } from '../../components/charts/shares.tsx';
import { isolated } from '../../components/values/names.tsx';
import { Status, type Tone } from '../../components/values/status.tsx';
import { many } from '../../components/values/units.ts';
import { useOverview } from '../../overview.tsx';
import { labelOf, toneOf } from '../transfers/states.tsx';

const STATES: Record<Batch['status'], { label: string; tone: Tone }> = {
  creating: { label: 'Creating', tone: 'neutral' },
  open: { label: 'Open', tone: 'active' },
  completed: { label: 'Completed', tone: 'good' },
  completed_with_failures: { label: 'Completed with failures', tone: 'bad' },
  cancelled: { label: 'Cancelled', tone: 'warning' },
};

export function BatchState({ batch: { status, failing } }: { batch: Batch }) {
  if (failing) return <Status tone="warning">Cannot list its folder</Status>;
  const { label, tone } = STATES[status];
  return <Status tone={tone}>{label}</Status>;
}

/** Returns the name of a flow by its id; undefined if it was removed, and until it is loaded. */
export function useFlowName(): (id: string) => string | undefined {
  const flows = useOverview().flows?.data?.data;
  return (id) => flows?.find((flow) => flow.id === id)?.name;
}

/** Returns what names a batch for people: its folder, or where its items come from. */
export function useBatchName(): (batch: Batch) => string {
  const flowName = useFlowName();
  return ({ folder, retry_of, flow_id, counts }) => {
    if (folder) return folder.source_uri;
    const items = many(counts.items, 'file');
    if (flow_id !== null) return `Run of ${isolated(flowName(flow_id) ?? 'a flow')}, ${items}`;
    return `${retry_of === null ? 'Batch' : 'Retry'} of ${items}`;
  };
}

/** Returns how many items have ended. */
export function endedOf({ counts: { completed, failed, cancelled } }: Batch): number {
  return completed + failed + cancelled;
}

/** How the transfers of a batch end, in the order of the bar. */
const ENDS = ['completed', 'failed', 'cancelled'] as const;

/** Shows how much of a batch has ended, and how. */
export function Ended({ batch }: { batch: Batch }) {
  const { counts } = batch;
  // At least 1: a batch whose folder is empty, or is still being listed, has an empty bar.
  const others = Math.max(counts.items - endedOf(batch), counts.items === 0 ? 1 : 0);
  const share = (label: string, size: number, tone: Tone) => ({
    text: `${label}: ${size.toLocaleString('en')}`,
    size,
    tone,
  });
  return (
    <span class="progress">
      <Shares
        shares={[
          ...ENDS.map((status) => share(labelOf(status), counts[status], toneOf(status))),
          share('Not ended', others, 'neutral'),
        ]}
      />
      <span class="number">{Math.floor(progressOf(batch))} %</span>
    </span>
  );
}

/** Returns the share of the items that have ended, in percent. 100 only at the end. */
export function progressOf(batch: Batch): number {
  if (batch.ended_at !== null) return 100;
  const { items } = batch.counts;
  return items === 0 ? 0 : Math.min(99, (endedOf(batch) / items) * 100);
}
