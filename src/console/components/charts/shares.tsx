import type { Tone } from '../values/status.tsx';

export interface Share {
  /** Name and size, shown on hover. */
  text: string;
  size: number;
  tone: Tone;
}

/**
 * Draws how a whole divides, as one bar. Screen readers skip it: it belongs beside the figures.
 */
export function Shares({ shares }: { shares: Share[] }) {
  const total = shares.reduce((sum, { size }) => sum + size, 0);
  if (total === 0) return null;
  let x = 0;
  return (
    <svg class="shares" viewBox={`0 0 ${total} 1`} preserveAspectRatio="none" aria-hidden="true">
      {shares.map(({ text, size, tone }, index) => {
        if (size === 0) return null;
        const from = x;
        x += size;
        return (
          <rect key={index} class={tone} x={from} width={size} height="1">
            <title>{text}</title>
          </rect>
        );
      })}
    </svg>
  );
}
