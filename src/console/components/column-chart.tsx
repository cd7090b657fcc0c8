import { Chart, HEIGHT, heightOf, highestOf, WIDTH } from './chart.tsx';

export interface ChartColumn {
  /** Start, in milliseconds since 1970. */
  from: number;
  /** End, in milliseconds since 1970. */
  to: number;
  value: number;
}

interface ColumnChartProps {
  /** Describes the chart for screen readers. */
  label: string;
  /** Oldest first; there may be gaps. */
  columns: ChartColumn[];
  /** Start of the chart. It may be before the first column. */
  from: number;
  to: number;
  /** Length of the chart, such as `24 hours`. */
  span: string;
  format: (value: number) => string;
}

/** Draws one column for each span of time. */
export function ColumnChart({ label, columns, from, to, span, format }: ColumnChartProps) {
  const values = columns.map(({ value }) => value);
  const highest = highestOf(values);
  const x = (at: number) =>
    (((Math.min(to, Math.max(from, at)) - from) / (to - from)) * WIDTH).toFixed(1);
  const bottom = HEIGHT - 1;
  const path = columns
    .map(({ from, to, value }) => {
      const top = heightOf(value, highest);
      return `M${x(from)} ${bottom}V${top}H${x(to)}V${bottom}Z`;
    })
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
