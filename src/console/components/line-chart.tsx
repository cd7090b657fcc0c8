export interface Point {
  /** Milliseconds, on any clock. */
  at: number;
  value: number;
}

interface LineChartProps {
  /** What is drawn, for screen readers. */
  label: string;
  points: Point[];
  /** Writes a value. */
  format: (value: number) => string;
  /** The time that is drawn; from the first point to the last by default. */
  span?: { from: number; to: number };
}

const WIDTH = 600;
const HEIGHT = 120;

/** Values over time as a line, its highest and latest value in words beside it. */
export function LineChart({ label, points, format, span }: LineChartProps) {
  const latest = points.at(-1);
  const highest = Math.max(0, ...points.map(({ value }) => value));
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <line x1="0" y1={HEIGHT - 1} x2={WIDTH} y2={HEIGHT - 1} class="axis" />
        {points.length > 1 && <path d={lineThrough(points, highest, span)} />}
      </svg>
      <figcaption class="muted number">
        {latest ? `Now ${format(latest.value)}, at most ${format(highest)}` : 'Nothing measured yet'}
      </figcaption>
    </figure>
  );
}

function lineThrough(points: Point[], highest: number, span: LineChartProps['span']): string {
  const { from, to } = span ?? { from: points[0]?.at ?? 0, to: points.at(-1)?.at ?? 0 };
  const x = (at: number) => (((at - from) / (to - from || 1)) * WIDTH).toFixed(1);
  const y = (value: number) => (HEIGHT - 2 - (value / (highest || 1)) * (HEIGHT - 6)).toFixed(1);
  return points.map(({ at, value }, index) => `${index === 0 ? 'M' : 'L'}${x(at)} ${y(value)}`).join('');
}
