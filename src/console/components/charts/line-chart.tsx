import { duration } from '../values/units.ts';
import { Chart, heightOf, topOf, WIDTH } from './chart.tsx';

export interface Point {
  /** Milliseconds, of any clock. */
  at: number;
  value: number;
}

interface LineChartProps {
  /** Describes the chart for screen readers. */
  label: string;
  points: Point[];
  /** Least value at the top of the value axis. */
  least: number;
  format: (value: number) => string;
}

/** Draws values over time as a line, from the first to the last, which is now. */
export function LineChart({ label, points, least, format }: LineChartProps) {
  const values = points.map(({ value }) => value);
  const top = topOf(values, least);
  const start = points[0]?.at ?? 0;
  const end = points.at(-1)?.at ?? 0;
  const place = (at: number) => (at - start) / (end - start || 1);
  const ago = (at: number) => {
    const seconds = Math.round((end - at) / 1_000);
    return seconds === 0 ? 'now' : `${duration(seconds)} ago`;
  };
  const path = points
    .map(({ at, value }, index) => {
      const x = (place(at) * WIDTH).toFixed(1);
      return `${index === 0 ? 'M' : 'L'}${x} ${heightOf(value, top)}`;
    })
    .join('');
  const latest = values.at(-1);
  return (
    <Chart
      label={label}
      shapes={[{ kind: 'line', path }]}
      top={top}
      format={format}
      times={[...new Set([ago(start), ago((start + end) / 2), 'now'])]}
      marks={points.map(({ at, value }) => ({
        x: place(at),
        text: `${ago(at)}: ${format(value)}`,
      }))}
    >
      {latest !== undefined && `Now ${format(latest)}, peak ${format(Math.max(...values))}`}
    </Chart>
  );
}
