import type { ComponentChildren } from 'preact';
import { Chart, HEIGHT, heightOf, topOf, WIDTH } from './chart.tsx';

export interface ChartColumn {
  /** Start, in milliseconds since 1970. */
  from: number;
  /** End, in milliseconds since 1970. */
  to: number;
  value: number;
  /** Time and value, as text. */
  text: string;
}

interface ColumnChartProps {
  /** Describes the chart for screen readers. */
  label: string;
  /** Oldest first; there may be gaps. */
  columns: ChartColumn[];
  /** Start of the chart. It may be before the first column. */
  from: number;
  to: number;
  /** Labels of the time axis, at equal distances. */
  times: string[];
  /** Least value at the top of the value axis. */
  least: number;
  format: (value: number) => string;
  /** Rendered as the caption. */
  children: ComponentChildren;
}

/** Draws one column for each span of time. */
export function ColumnChart({
  label,
  columns,
  from,
  to,
  times,
  least,
  format,
  children,
}: ColumnChartProps) {
  const top = topOf(
    columns.map(({ value }) => value),
    least,
  );
  const place = (at: number) => (Math.min(to, Math.max(from, at)) - from) / (to - from);
  const x = (at: number) => (place(at) * WIDTH).toFixed(1);
  const path = columns
    .map(
      ({ from, to, value }) => `M${x(from)} ${HEIGHT}V${heightOf(value, top)}H${x(to)}V${HEIGHT}Z`,
    )
    .join('');
  return (
    <Chart
      label={label}
      kind="columns"
      path={path}
      top={top}
      format={format}
      times={times}
      marks={columns.map(({ from, to, text }) => ({ x: place((from + to) / 2), text }))}
    >
      {children}
    </Chart>
  );
}
