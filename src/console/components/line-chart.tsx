import { Chart, heightOf, highestOf, WIDTH } from './chart.tsx';

export interface Point {
  /** Milliseconds, of any clock. */
  at: number;
  value: number;
}

interface LineChartProps {
  /** Describes the chart for screen readers. */
  label: string;
  points: Point[];
  format: (value: number) => string;
}

/** Draws values over time as a line, from the first to the last. */
export function LineChart({ label, points, format }: LineChartProps) {
  const values = points.map(({ value }) => value);
  return (
    <Chart
      label={label}
      kind="line"
      path={lineThrough(points, highestOf(values))}
      values={values}
      format={format}
    />
  );
}

function lineThrough(points: Point[], highest: number): string {
  const start = points[0]?.at ?? 0;
  const span = (points.at(-1)?.at ?? 0) - start || 1;
  const x = (at: number) => (((at - start) / span) * WIDTH).toFixed(1);
  return points
    .map(({ at, value }, index) => `${index === 0 ? 'M' : 'L'}${x(at)} ${heightOf(value, highest)}`)
    .join('');
}
