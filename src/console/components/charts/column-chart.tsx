import type { ComponentChildren } from 'preact';
import type { Tone } from '../values/status.tsx';
import { Chart, heightOf, topOf, WIDTH } from './chart.tsx';

export interface ChartColumn {
  /** Start, in milliseconds since 1970. */
  from: number;
  /** End, in milliseconds since 1970. */
  to: number;
  /** Its parts, from the bottom. */
  parts: { tone: Tone; size: number }[];
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

/** Draws one column for each span of time, of parts on top of each other. */
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
  const top = topOf(columns.map(heightOfColumn), least);
  const place = (at: number) => (Math.min(to, Math.max(from, at)) - from) / (to - from);
  const x = (at: number) => (place(at) * WIDTH).toFixed(1);
  const paths = new Map<Tone, string>();
  for (const { from, to, parts } of columns) {
    let bottom = 0;
    for (const { tone, size } of parts.filter(({ size }) => size > 0)) {
      const ends = [bottom, bottom + size].map((height) => heightOf(height, top));
      const part = `M${x(from)} ${ends[0]}V${ends[1]}H${x(to)}V${ends[0]}Z`;
      paths.set(tone, (paths.get(tone) ?? '') + part);
      bottom += size;
    }
  }
  return (
    <Chart
      label={label}
      shapes={[...paths].map(([tone, path]) => ({ kind: `columns ${tone}`, path }))}
      top={top}
      format={format}
      times={times}
      marks={columns.map(({ from, to, text }) => ({ x: place((from + to) / 2), text }))}
    >
      {children}
    </Chart>
  );
}

function heightOfColumn({ parts }: ChartColumn): number {
  return parts.reduce((height, { size }) => height + size, 0);
}
