import type { LogCheckpointSink } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Status, type Tone } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';

const LOOK_MS = 5_000;

const STATES: Record<LogCheckpointSink['state'], { tone: Tone; label: string }> = {
  unknown: { tone: 'neutral', label: 'Not asked yet' },
  keeps: { tone: 'good', label: 'Keeps the last one' },
  retries: { tone: 'warning', label: 'Asked again' },
  refuses: { tone: 'bad', label: 'Contradicts the log' },
};

const COLUMNS: Column<LogCheckpointSink>[] = [
  { heading: 'Place', kind: 'row', cell: ({ url }) => <code>{url}</code> },
  {
    heading: 'State',
    cell: ({ state }) => <Status tone={STATES[state].tone}>{STATES[state].label}</Status>,
  },
  { heading: 'Events', kind: 'number', cell: ({ size }) => size?.toLocaleString('en') ?? '–' },
  { heading: 'Taken', cell: ({ taken_at }) => <Time at={taken_at} /> },
  { heading: 'Last error', cell: ({ error }) => error ?? '–' },
  { heading: 'Next try', cell: ({ next_try_at }) => <Time at={next_try_at} /> },
];

/** The places outside that keep checkpoints, with what each has and why it fails. */
export function Sinks() {
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/checkpoints/sinks', { signal }),
    [],
    LOOK_MS,
  );
  const contradicts = data?.data.some(({ state }) => state === 'refuses');
  return (
    <section class="card">
      <h2>Kept elsewhere</h2>
      <LoadState of={{ data, error, reload }} />
      {contradicts && (
        <p class="notice danger" role="alert">
          A place has a checkpoint that this log does not have: an older copy of the log was
          restored, or the log was changed. Keep both, and follow <em>A restored older log</em> in
          the operators' guide.
        </p>
      )}
      {data && data.data.length === 0 && (
        <Empty title="No place outside keeps checkpoints">
          <p>
            A checkpoint that only this installation has can be replaced together with the log. Name
            places in <code>WAYBILL_CHECKPOINT_SINKS</code>.
          </p>
        </Empty>
      )}
      {data && data.data.length > 0 && (
        <Table
          caption="Places that keep checkpoints"
          columns={COLUMNS}
          rows={data.data}
          id={({ url }) => url}
        />
      )}
    </section>
  );
}
