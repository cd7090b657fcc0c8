const BYTES = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
const BITS = ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s'];

/** Counts things, such as `1 file` or `1,200 files`. Give a plural that needs more than an `s`. */
export function many(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? noun : plural}`;
}

/** Formats a byte count, such as `128 MiB`; null, an unknown size, is a dash. */
export function bytes(count: number | null): string {
  return count === null ? '–' : scaled(count, 1_024, BYTES);
}

/** Formats a speed, such as `93.5 Mbit/s`; null is a dash. */
export function speed(bitsPerSecond: number | null): string {
  return bitsPerSecond === null ? '–' : scaled(bitsPerSecond, 1_000, BITS);
}

/** Formats seconds, such as `2 min 5 s`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
}

/** Formats milliseconds, to the millisecond below a minute, such as `1.234 s`. */
export function elapsed(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(3)} s` : duration(ms / 1_000);
}

const UNITS: Record<string, string> = {
  ms: 'millisecond',
  s: 'second',
  m: 'minute',
  h: 'hour',
  d: 'day',
};

/** Returns a duration of the API in words: `5 minutes` for `5m`. */
export function inWords(duration: string): string {
  const [, count, unit = ''] = /^(\d+)([a-z]+)$/.exec(duration.trim()) ?? [];
  const noun = UNITS[unit];
  return noun === undefined ? duration : many(Number(count), noun);
}

/** Uses the next unit as soon as a rounded value would reach it: no `1024 KiB`. */
function scaled(count: number, step: number, units: string[]): string {
  let value = count;
  let power = 0;
  for (; power < units.length - 1 && Math.round(value) >= step; power++) value /= step;
  return `${value < 9.95 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}
