import { Chart, HEIGHT, heightOf, highestOf, WIDTH } from './chart.tsx';

export interface ChartColumn {
  /** Milliseconds since 1970: when it begins and ends. */
  from: number;
  to: number;
  value: number;
}

interface ColumnChartProps {
  /** What is drawn, for screen readers. */
  label: string;
  /** Oldest first; there may be gaps. */
  columns: ChartColumn[];
  /** The time that is drawn: it may begin before the first column. */
  from: number;
  to: number;
  /** How far back it begins, in words. */
  span: string;
  /** Writes a value. */
  format: (value: number) => string;
}

/** Values of spans of time as columns. */
export function ColumnChart({ label, columns, from, to, span, format }: ColumnChartProps) {
  const values = columns.map(({ value }) => value);
  const highest = highestOf(values);
  const x = (at: number) => (((Math.min(to, Math.max(from, at)) - from) / (to - from)) * WIDTH).toFixed(1);
  const path = columns
    .map((column) => `M${x(column.from)} ${HEIGHT - 1}V${heightOf(column.value, highest)}H${x(column.to)}V${HEIGHT - 1}Z`)
    .join('');
  return (
    <Chart label={label} kind="columns" path={path} values={values} format={format}>
      <p class="chart-span muted" aria-hidden="true">
        <span>{span} ago</span>
        <span>now</span>
      </p>
    </Chart>
  );
}
