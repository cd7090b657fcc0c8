import type { RunAnswer } from '../../api/api-types.ts';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Path } from '../../components/values/names.tsx';
import { Status, type Tone } from '../../components/values/status.tsx';

/** The answer to a dry run. */
export type DryRun = Required<Omit<RunAnswer, 'id' | 'status'>>;
type File = DryRun['data'][number];

const DECISIONS: Record<File['decision'], { label: string; tone: Tone }> = {
  take: { label: 'Take', tone: 'good' },
  wait: { label: 'Wait', tone: 'warning' },
  taken: { label: 'Leave', tone: 'neutral' },
  reject: { label: 'Reject', tone: 'bad' },
};

const COLUMNS: Column<File>[] = [
  {
    heading: 'File',
    kind: 'row',
    cell: ({ path, destination_uri }) => (
      <>
        <Path of={path} />
        {destination_uri && (
          <span class="route">
            to <Path of={destination_uri} />
          </span>
        )}
      </>
    ),
  },
  {
    heading: 'Decision',
    cell: ({ decision }) => (
      <Status tone={DECISIONS[decision].tone}>{DECISIONS[decision].label}</Status>
    ),
  },
  { heading: 'Why', cell: ({ reason }) => <span class="wait">{reason}</span> },
];

/** What a run would do with each file of the folder. */
export function DryRunResult({ of: { counts, data, error, truncated } }: { of: DryRun }) {
  return (
    <section class="card">
      <h2>Dry run</h2>
      <p>
        A run would take {counts.take.toLocaleString('en')}, wait for{' '}
        {counts.wait.toLocaleString('en')}, leave {counts.taken.toLocaleString('en')} and reject{' '}
        {counts.reject.toLocaleString('en')}. Nothing was taken.
      </p>
      {error && (
        <p class="error">
          {error.folder} {error.message}
        </p>
      )}
      {data.length > 0 && (
        <Table
          caption="Files of the dry run"
          columns={COLUMNS}
          rows={data}
          id={({ path }) => path}
        />
      )}
      {truncated && <p class="muted">There are more files.</p>}
    </section>
  );
}
