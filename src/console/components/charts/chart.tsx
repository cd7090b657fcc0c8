import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

/** Size of the frame of a path. The browser stretches the frame to the available space. */
export const WIDTH = 600;
export const HEIGHT = 120;

/** A place in a chart that the pointer or the arrow keys can select. */
export interface Mark {
  /** From 0, the start, to 1, the end. */
  x: number;
  /** Time and value, as text. */
  text: string;
}

interface ChartProps {
  /** Describes the chart for screen readers. */
  label: string;
  /** The class and the outline of what is drawn. */
  shapes: { kind: string; path: string }[];
  /** Value at the top of the frame: see `topOf`. */
  top: number;
  format: (value: number) => string;
  /** Labels below the drawing, at equal distances. */
  times: string[];
  /** Oldest first. */
  marks: Mark[];
  /** Rendered as the caption. */
  children: ComponentChildren;
}

/** Draws values over time, with axes. Hovering, or the arrow keys, show the value of a time. */
export function Chart({ label, shapes, top, format, times, marks, children }: ChartProps) {
  const [selected, select] = useState<number | null>(null);
  const last = marks.length - 1;
  const index = selected === null ? last : Math.min(selected, last);
  const shown = selected === null ? undefined : marks[index];
  const point = ({ clientX, currentTarget }: PointerEvent) => {
    const { left, width } = (currentTarget as Element).getBoundingClientRect();
    select(nearest(marks, (clientX - left) / width));
  };
  return (
    <figure class="chart">
      <div class="chart-frame">
        <p class="chart-values number muted" aria-hidden="true">
          {[top, top / 2, 0].map((value) => (
            <span key={value}>{format(value)}</span>
          ))}
        </p>
        <div
          class="chart-plot"
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => select(null)}
        >
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={label}
          >
            {[0, HEIGHT / 2, HEIGHT].map((y) => (
              <line key={y} x1="0" y1={y} x2={WIDTH} y2={y} class="axis" />
            ))}
            {shapes.map(({ kind, path }) => (
              <path key={kind} class={kind} d={path} />
            ))}
            {shown && (
              <line x1={shown.x * WIDTH} y1="0" x2={shown.x * WIDTH} y2={HEIGHT} class="mark" />
            )}
          </svg>
          {last >= 0 && (
            <input
              type="range"
              min={0}
              max={last}
              value={index}
              aria-label={`${label}: value at a time`}
              aria-valuetext={marks[index]?.text}
              onFocus={() => select(index)}
              onBlur={() => select(null)}
              onInput={({ currentTarget }) => select(Number(currentTarget.value))}
            />
          )}
          {shown && (
            <p class={`chart-tip number ${shown.x > 0.5 ? 'left' : 'right'}`} aria-hidden="true">
              {shown.text}
            </p>
          )}
        </div>
        <p class="chart-times number muted" aria-hidden="true">
          {times.map((time) => (
            <span key={time}>{time}</span>
          ))}
        </p>
      </div>
      <figcaption class="number">{children}</figcaption>
    </figure>
  );
}

function nearest(marks: Mark[], x: number): number | null {
  const distance = (index: number) => Math.abs((marks[index]?.x ?? 0) - x);
  return marks.reduce<number | null>(
    (best, _, index) => (best === null || distance(index) < distance(best) ? index : best),
    null,
  );
}

/**
 * Returns the least round number that no value exceeds, and at least `least`: an even digit, or 1,
 * times a power of ten. Its half is round too.
 */
export function topOf(values: number[], least: number): number {
  const highest = Math.max(least, ...values);
  const power = 10 ** Math.floor(Math.log10(highest));
  return ([1, 2, 4, 6, 8].find((step) => step * power >= highest) ?? 10) * power;
}

/** Returns the y coordinate of a value. */
export function heightOf(value: number, top: number): string {
  return ((1 - value / top) * HEIGHT).toFixed(1);
}
