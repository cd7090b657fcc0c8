import { useEffect, useState } from 'preact/hooks';
import { absolute, offsetAt } from './instants.ts';
import { useZone } from './time-zone.tsx';

const UNITS: [unit: Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
];
/** Not `numeric: 'auto'`: it says `yesterday` of what was up to 48 hours ago. */
const relative = new Intl.RelativeTimeFormat('en');
const EVERY_MS = 10_000;

interface TimeProps {
  at: string | null;
  brief?: boolean;
  short?: boolean;
}

/**
 * Shows a time in the chosen zone, and relative to now. Hovering shows UTC. null is a dash. On paper
 * and on a receipt it has its offset from UTC: there, no switch says which zone was chosen. In brief
 * it is only relative, with the rest on hover. A short one has whole seconds, and is in one line if
 * there is room.
 */
export function Time({ at, brief = false, short = false }: TimeProps) {
  const zone = useZone();
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((count) => count + 1), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (at === null) return <>–</>;
  if (brief)
    return (
      <time dateTime={at} title={absolute(at, zone)}>
        {distance(at)}
      </time>
    );
  const [date, ...clock] = absolute(at, zone).split(' ');
  const time = clock.join(' ');
  return (
    <time dateTime={at} title={absolute(at, 'utc')} class={short ? 'short' : undefined}>
      <span class="whole">{date}</span>{' '}
      <span class="whole">{short ? time.replace(/\.\d+/, '') : time}</span>{' '}
      {zone === 'local' && <span class="offset">{offsetAt(at)} </span>}
      <span class="relative">{distance(at)}</span>
    </time>
  );
}

/** Returns a time relative to now, such as `3 minutes ago` or `in 7 days`. */
export function distance(at: string): string {
  const seconds = (Date.parse(at) - Date.now()) / 1_000;
  const found = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  if (!found) return 'now';
  const [unit, size] = found;
  return relative.format(Math.trunc(seconds / size), unit);
}
