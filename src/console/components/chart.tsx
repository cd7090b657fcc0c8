import type { ComponentChildren } from 'preact';

/** Size of the frame of a path. The browser stretches the frame to the available space. */
export const WIDTH = 600;
export const HEIGHT = 120;

interface ChartProps {
  /** Describes the chart for screen readers. */
  label: string;
  kind: 'line' | 'columns';
  path: string;
  /** Oldest first. */
  values: number[];
  format: (value: number) => string;
  /** Rendered below the drawing. */
  children?: ComponentChildren;
}

/** Draws values over time, with the latest and the highest as text. */
export function Chart({ label, kind, path, values, format, children }: ChartProps) {
  const latest = values.at(-1);
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        <line x1="0" y1={HEIGHT - 1} x2={WIDTH} y2={HEIGHT - 1} class="axis" />
        <path class={kind} d={path} />
      </svg>
      {children}
      <figcaption class="muted number">
        {latest === undefined
          ? 'No data yet'
          : `Now ${format(latest)}, peak ${format(highestOf(values))}`}
      </figcaption>
    </figure>
  );
}

export function highestOf(values: number[]): number {
  return Math.max(0, ...values);
}

/** Returns the y coordinate of a value. The highest value almost touches the top of the frame. */
export function heightOf(value: number, highest: number): string {
  return (HEIGHT - 2 - (value / (highest || 1)) * (HEIGHT - 6)).toFixed(1);
}
