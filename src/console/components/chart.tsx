import type { ComponentChildren } from 'preact';

/** A path is drawn in a frame of this size, which is stretched to what room there is. */
export const WIDTH = 600;
export const HEIGHT = 120;

interface ChartProps {
  /** What is drawn, for screen readers. */
  label: string;
  kind: 'line' | 'columns';
  path: string;
  /** Oldest first. */
  values: number[];
  /** Writes a value. */
  format: (value: number) => string;
  /** Stands under the drawing. */
  children?: ComponentChildren;
}

/** Values over time, the highest and the latest in words beside them. */
export function Chart({ label, kind, path, values, format, children }: ChartProps) {
  const latest = values.at(-1);
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <line x1="0" y1={HEIGHT - 1} x2={WIDTH} y2={HEIGHT - 1} class="axis" />
        <path class={kind} d={path} />
      </svg>
      {children}
      <figcaption class="muted number">
        {latest === undefined ? 'Nothing measured yet' : `Now ${format(latest)}, at most ${format(highestOf(values))}`}
      </figcaption>
    </figure>
  );
}

export function highestOf(values: number[]): number {
  return Math.max(0, ...values);
}

/** Where a value stands, from the top of the frame; the highest almost touches it. */
export function heightOf(value: number, highest: number): string {
  return (HEIGHT - 2 - (value / (highest || 1)) * (HEIGHT - 6)).toFixed(1);
}
