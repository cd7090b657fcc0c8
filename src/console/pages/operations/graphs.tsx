import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, urlOf } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { inputTime } from '../../components/values/instants.ts';
import { useZone } from '../../components/values/time-zone.tsx';
import { bytes, speed } from '../../components/values/units.ts';
import { errorRate, FIGURES, Graph, percent, type Span } from './graph.tsx';

const LOOK_MS = 30_000;
const HOUR_MS = 3_600_000;
const SPANS: [hours: string, label: string][] = [
  ['1', 'hour'],
  ['6', '6 hours'],
  ['24', '24 hours'],
  ['168', '7 days'],
];

const count = (transfers: number) => transfers.toLocaleString('en');

const COLUMNS: Column<Span>[] = [
  {
    heading: 'From',
    kind: 'row',
    headed: true,
    cell: ({ at }) => <Minute at={at} />,
  },
  { heading: 'Throughput', kind: 'number', cell: ({ speed_bps }) => speed(speed_bps) },
  { heading: 'Moved', kind: 'number', cell: ({ moved_bytes }) => bytes(moved_bytes) },
  { heading: 'Created', kind: 'number', cell: ({ created }) => count(created) },
  { heading: 'Completed', kind: 'number', cell: ({ completed }) => count(completed) },
  { heading: 'Failed', kind: 'number', cell: ({ failed }) => count(failed) },
  { heading: 'Error rate', kind: 'number', cell: (span) => percent(errorRate(span)) },
  { heading: 'Queue depth', kind: 'number', cell: ({ waiting }) => count(waiting) },
];

function Minute({ at }: { at: string }) {
  const zone = useZone();
  return (
    <time dateTime={at}>
      {inputTime(at, zone).replace('T', ' ')}
      {zone === 'utc' && ' UTC'}
    </time>
  );
}

/** Graphs of the past hours. The address holds how many. */
export function Graphs() {
  const { path, query, route } = useLocation();
  const [open, setOpen] = useState(false);
  const [hours, label] = SPANS.find(([hours]) => hours === query.hours) ?? (['1', 'hour'] as const);
  const { data, error, stale, reload } = useLoad(
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
      <LoadState of={{ data, error, stale, reload }} />
      <div class="charts">
        {FIGURES.map((figure) => (
          <Graph
            key={figure.title}
            figure={figure}
            spans={spans}
            period={`last ${label}`}
            from={now - Number(hours) * HOUR_MS}
            to={now}
          />
        ))}
      </div>
      <details class="more" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Show as table</summary>
        {open && (
          <Table
            caption={`Figures of the last ${label}, newest first`}
            columns={COLUMNS}
            rows={spans.toReversed()}
            id={({ at }) => at}
          />
        )}
      </details>
    </section>
  );
}
