/** The days of a week, in the order of ISO 8601. */
export const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
export type Day = (typeof DAYS)[number];

/** The least limit, in bytes per second. A pause stops an endpoint; a limit only slows it down. */
export const LEAST_BYTES_PER_SECOND = 1_024;

/**
 * A time of the day in which another limit holds, by the clocks of a time zone. One that ends
 * before it begins goes over midnight, and `days` names the days on which it begins.
 */
export interface BandwidthWindow {
  days: Day[];
  /** `HH:MM`. */
  from: string;
  /** `HH:MM`, or `24:00`: the window ends with the minute before. */
  to: string;
  time_zone: string;
  /** Null for no limit. */
  bytes_per_second: number | null;
}

/** Limits the bytes that all transfers of an endpoint move together. */
export interface Bandwidth {
  /** Holds outside of the windows. Null for no limit. */
  bytes_per_second: number | null;
  /** The first that holds counts. */
  windows: BandwidthWindow[];
}

/** Returns the limit at a time, in bytes per second. Null for no limit. */
export function limitAt(bandwidth: Bandwidth | null | undefined, at: Date): number | null {
  if (!bandwidth) return null;
  const window = bandwidth.windows.find((window) => holds(window, at));
  return (window ?? bandwidth).bytes_per_second;
}

function holds({ days, from, to, time_zone }: BandwidthWindow, at: Date): boolean {
  const { day, time } = clockIn(time_zone, at);
  const begins = (on: number) => days.includes(DAYS[(on + DAYS.length) % DAYS.length] as Day);
  if (from < to) return begins(day) && from <= time && time < to;
  return (begins(day) && from <= time) || (begins(day - 1) && time < to);
}

/** Returns what a clock on the wall shows: the day, 0 for Monday, and the time as `HH:MM`. */
function clockIn(timeZone: string, at: Date): { day: number; time: string } {
  const parts = Object.fromEntries(
    formatOf(timeZone)
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  );
  const day = DAYS.indexOf((parts.weekday as string).toLowerCase() as Day);
  return { day, time: `${parts.hour}:${parts.minute}` };
}

/** Each takes a while to create, and a limit asks every second. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  formats.set(timeZone, format);
  return format;
}
