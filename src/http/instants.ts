const DATE = /^\d{4}-\d{2}-\d{2}$/;
const DATE_TIME = /^\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(\d+))?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;
const DAY_MS = 24 * 3_600_000;

/** Which way an instant between two milliseconds, or a whole day, is taken. */
export type Edge = 'start' | 'end';

/**
 * An inclusive limit as an ISO instant with milliseconds: of a date (`YYYY-MM-DD`, UTC) its first or
 * last millisecond, or an RFC 3339 time with an offset. null for anything else, impossible dates included.
 */
export function parseLimit(text: string, edge: Edge): string | null {
  if (!DATE.test(text)) return parseTime(text, edge);
  if (!isCalendarDay(text)) return null;
  const start = Date.parse(text);
  return toIso(edge === 'start' ? start : start + DAY_MS - 1);
}

/** An RFC 3339 time with an offset as an ISO instant with milliseconds, or null. */
export function parseTime(text: string, edge: Edge = 'end'): string | null {
  const match = DATE_TIME.exec(text);
  if (!match || !isCalendarDay(text.slice(0, 10))) return null;
  const finer = /[1-9]/.test(match[1]?.slice(3) ?? '');
  return toIso(Date.parse(text.toUpperCase()) + (finer && edge === 'start' ? 1 : 0));
}

/** February 30 would be taken for March 2. */
function isCalendarDay(date: string): boolean {
  const ms = Date.parse(date);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}

/** null outside the years 1 to 9999, which an offset can leave. */
function toIso(ms: number): string | null {
  if (Number.isNaN(ms)) return null;
  const iso = new Date(ms).toISOString();
  // A year of more digits is written with a sign, which sorts before them.
  return iso >= '0001' ? iso : null;
}
