import type { OperationsSeries } from '../../api/api-types.ts';
import { urlOf } from '../../api/client.ts';
import { ColumnChart } from '../../components/charts/column-chart.tsx';
import type { Zone } from '../../components/values/instants.ts';
import { useZone } from '../../components/values/time-zone.tsx';
import { bytes, speed } from '../../components/values/units.ts';

export type Span = OperationsSeries['data'][number];

/** A figure of each span of time. */
export interface Figure {
  title: string;
  value: (span: Span) => number;
  format: (value: number) => string;
  /** The value of a span, with the counts behind it. */
  text: (span: Span) => string;
  /** The figure of the whole time. */
  total: (spans: Span[]) => string;
  /** Least value at the top of the value axis. */
  least: number;
  /** The state of the transfers that a peak is about. */
  status?: 'completed' | 'failed';
}

export const FIGURES: Figure[] = [
  {
    title: 'Throughput',
    value: ({ speed_bps }) => speed_bps,
    format: speed,
    text: ({ speed_bps, moved_bytes }) => `${speed(speed_bps)} (${bytes(moved_bytes)})`,
    total: (spans) => `${bytes(sum(spans, 'moved_bytes'))} moved`,
    least: 1_000,
  },
  {
    title: 'Completed per minute',
    value: ({ completed, seconds }) => (completed * 60) / seconds,
    format: decimal,
    text: ({ completed }) => `${decimal(completed)} completed`,
    total: (spans) => `${decimal(sum(spans, 'completed'))} completed`,
    least: 2,
    status: 'completed',
  },
  {
    title: 'Error rate',
    value: errorRate,
    format: percent,
    text: failedOf,
    total: (spans) =>
      failedOf({ completed: sum(spans, 'completed'), failed: sum(spans, 'failed') }),
    least: 0.01,
    status: 'failed',
  },
  {
    title: 'Queue depth',
    value: ({ waiting }) => waiting,
    format: decimal,
    text: ({ waiting }) => `${decimal(waiting)} waiting`,
    total: (spans) => `${decimal(spans.at(-1)?.waiting ?? 0)} waiting now`,
    least: 2,
  },
];

interface GraphProps {
  figure: Figure;
  spans: Span[];
  /** Such as `last hour`. */
  period: string;
  from: number;
  to: number;
}

/** A figure over time. Its peak links to the transfers of that time. */
export function Graph({ figure, spans, period, from, to }: GraphProps) {
  const { title, value, format, text, total, least, status } = figure;
  const clock = clockOf(to - from, useZone());
  const peak = spans.reduce<Span | null>(
    (best, span) => (value(span) > (best ? value(best) : 0) ? span : best),
    null,
  );
  return (
    <div>
      <h3>{title}</h3>
      <ColumnChart
        label={`${title}, ${period}`}
        columns={spans.map((span) => ({
          ...timesOf(span),
          parts: [{ tone: 'active', size: value(span) }],
          text: `${clock(timesOf(span).from)}: ${text(span)}`,
        }))}
        from={from}
        to={to}
        times={[clock(from), clock((from + to) / 2), 'now']}
        least={least}
        format={format}
      >
        {spans.length === 0 ? 'No data yet' : total(spans)}
        {peak && (
          <>
            {', '}
            <a href={transfersOf(peak, status)}>
              peak {format(value(peak))} at {clock(timesOf(peak).from)}
            </a>
          </>
        )}
      </ColumnChart>
    </div>
  );
}

/** What moves in a span was often created some minutes earlier. */
const CREATED_BEFORE_MS = 15 * 60_000;

/** Returns the address of the list of transfers that were created in a span, or shortly before. */
function transfersOf(span: Span, status: Figure['status']): string {
  const { from, to } = timesOf(span);
  const query = {
    status,
    from_date: new Date(from - CREATED_BEFORE_MS).toISOString(),
    to_date: new Date(to - 1).toISOString(),
  };
  return urlOf('/console/transfers', { query });
}

function timesOf({ at, seconds }: Span): { from: number; to: number } {
  const from = Date.parse(at);
  return { from, to: from + seconds * 1_000 };
}

/** Returns the format of a time: with the day if the chart is longer than one. UTC is named. */
function clockOf(lengthMs: number, zone: Zone): (at: number) => string {
  const day = lengthMs > 86_400_000 ? ({ weekday: 'short', day: 'numeric' } as const) : {};
  const utc = zone === 'utc' ? ({ timeZone: 'UTC', timeZoneName: 'short' } as const) : {};
  const clock = { hour: '2-digit', minute: '2-digit' } as const;
  const format = new Intl.DateTimeFormat('en-GB', { ...day, ...clock, ...utc });
  return (at) => format.format(at);
}

function sum(spans: Span[], name: 'moved_bytes' | 'completed' | 'failed'): number {
  return spans.reduce((total, span) => total + span[name], 0);
}

type Ends = Pick<Span, 'completed' | 'failed'>;

/** The failed share of the transfers that completed or failed; cancelled ones do not count. */
export function errorRate({ completed, failed }: Ends): number {
  return failed === 0 ? 0 : failed / (completed + failed);
}

function failedOf(ends: Ends): string {
  const { completed, failed } = ends;
  return `${percent(errorRate(ends))} (${decimal(failed)} of ${decimal(completed + failed)})`;
}

export function percent(share: number): string {
  return `${decimal(share * 100)} %`;
}

function decimal(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: 1 });
}
