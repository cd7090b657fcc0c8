import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, urlOf } from '../../api/client.ts';
import type { OperationsSeries } from '../../api/operations.ts';
import { useLoad } from '../../api/use-load.ts';
import { ColumnChart } from '../../components/column-chart.tsx';
import { ProblemNotice } from '../../components/problem.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { speed } from '../../components/units.ts';

const LOOK_MS = 30_000;
const HOUR_MS = 3_600_000;
const SPANS: [hours: string, label: string][] = [
  ['1', 'hour'],
  ['6', '6 hours'],
  ['24', '24 hours'],
  ['168', '7 days'],
];

type Span = OperationsSeries['data'][number];

const GRAPHS: {
  title: string;
  value: (span: Span) => number;
  format: (value: number) => string;
}[] = [
  { title: 'Throughput', value: ({ speed_bps }) => speed_bps, format: speed },
  {
    title: 'Completed per minute',
    value: ({ completed, seconds }) => (completed * 60) / seconds,
    format: decimal,
  },
  { title: 'Error rate', value: errorRate, format: percent },
  { title: 'Queue depth', value: ({ waiting }) => waiting, format: decimal },
];

const FIGURES: Column<Span>[] = [
  {
    heading: 'From',
    kind: 'row',
    cell: ({ at }) => (
      <time dateTime={at}>
        {new Date(at).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' })}
      </time>
    ),
  },
  { heading: 'Throughput', kind: 'number', cell: ({ speed_bps }) => speed(speed_bps) },
  { heading: 'Created', kind: 'number', cell: ({ created }) => created },
  { heading: 'Completed', kind: 'number', cell: ({ completed }) => completed },
  { heading: 'Failed', kind: 'number', cell: ({ failed }) => failed },
  { heading: 'Error rate', kind: 'number', cell: (span) => percent(errorRate(span)) },
  { heading: 'Queue depth', kind: 'number', cell: ({ waiting }) => waiting },
];

/** Graphs of the past hours. The address holds how many. */
export function Graphs() {
  const { path, query, route } = useLocation();
  const [open, setOpen] = useState(false);
  const [hours, label] =
    SPANS.find(([hours]) => hours === query.hours) ?? (['24', '24 hours'] as const);
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/operations/series', { query: { hours: Number(hours) }, signal }),
    [hours],
    LOOK_MS,
  );
  const spans = data?.data ?? [];
  const now = Date.now();
  return (
    <section class="card">
      <header class="page-header">
        <h2>Last {label}</h2>
        <label class="inline">
          <span>Time range</span>
          <select
            value={hours}
            onChange={({ currentTarget }) =>
              route(urlOf(path, { query: { hours: currentTarget.value } }))
            }
          >
            {SPANS.map(([value, label]) => (
              <option key={value} value={value}>
                Last {label}
              </option>
            ))}
          </select>
        </label>
      </header>
      {error && <ProblemNotice error={error} retry={reload} />}
      <div class="grid">
        {GRAPHS.map(({ title, value, format }) => (
          <div key={title}>
            <h3>{title}</h3>
            <ColumnChart
              label={`${title} over the last ${label}`}
              columns={spans.map((span) => ({ ...timesOf(span), value: value(span) }))}
              from={now - Number(hours) * HOUR_MS}
              to={now}
              span={hours === '1' ? '1 hour' : label}
              format={format}
            />
          </div>
        ))}
      </div>
      <details class="more" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Show as table</summary>
        {open && (
          <Table
            caption={`Figures of the last ${label}, newest first`}
            columns={FIGURES}
            rows={spans.toReversed()}
            id={({ at }) => at}
          />
        )}
      </details>
    </section>
  );
}

function timesOf({ at, seconds }: Span): { from: number; to: number } {
  const from = Date.parse(at);
  return { from, to: from + seconds * 1_000 };
}

/** The failed share of the transfers that completed or failed; cancelled ones do not count. */
function errorRate({ completed, failed }: Span): number {
  return failed === 0 ? 0 : failed / (completed + failed);
}

function percent(share: number): string {
  return `${decimal(share * 100)} %`;
}

function decimal(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: 1 });
}
