/** The zone in which the console shows times: that of the browser, or UTC. */
export type Zone = 'local' | 'utc';

/** Formats an instant with milliseconds, such as `2026-01-31 09:30:00.123`; UTC is named. */
export function absolute(at: string, zone: Zone): string {
  return wallClock(at, zone).replace('T', ' ') + (zone === 'utc' ? ' UTC' : '');
}

/** Returns how far the browser's zone is from UTC at an instant, such as `+01:00`. */
export function offsetAt(at: string): string {
  const minutes = -new Date(at).getTimezoneOffset();
  const two = (count: number) => String(Math.trunc(count)).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

/** Formats an instant to the minute, with its day only if that is not the one of `now`. */
export function toTheMinute(at: Date, now: Date, zone: Zone): string {
  const [day, clock] = wallClock(at.toISOString(), zone).split('T') as [string, string];
  const isToday = wallClock(now.toISOString(), zone).startsWith(day);
  return `${isToday ? '' : `${day} `}${clock.slice(0, 5)}${zone === 'utc' ? ' UTC' : ''}`;
}

/** Formats an instant for an input of type `datetime-local`. */
export function inputTime(at: string, zone: Zone): string {
  return wallClock(at, zone).slice(0, 16);
}

/** Parses the value of an input of type `datetime-local`. Returns null if it is empty. */
export function instantOf(wall: string, zone: Zone): string | null {
  const time = new Date(zone === 'utc' ? `${wall}Z` : wall);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** The first or the last millisecond of a day. */
export type Edge = 'start' | 'end';

const EDGES: Record<Edge, string> = { start: 'T00:00:00.000', end: 'T23:59:59.999' };

/** Returns an edge of a day (`YYYY-MM-DD`) in a zone, or an empty text for one. */
export function edgeOf(day: string, edge: Edge, zone: Zone): string {
  return instantOf(day + EDGES[edge], zone) ?? '';
}

/** Returns the day of a limit of the API: an instant, or a day in UTC. Empty for other text. */
export function dayOf(limit: string, edge: Edge, zone: Zone): string {
  const at = limit.includes('T') ? limit : `${limit}${EDGES[edge]}Z`;
  return Number.isNaN(Date.parse(at)) ? '' : wallClock(at, zone).slice(0, 10);
}

function wallClock(at: string, zone: Zone): string {
  const time = new Date(at);
  const minutes = zone === 'utc' ? 0 : time.getTimezoneOffset();
  return new Date(time.getTime() - minutes * 60_000).toISOString().slice(0, -1);
}
