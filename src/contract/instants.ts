import { z } from 'zod';

/** A time in ISO 8601, UTC. */
export const timestamp = z
  .string()
  .meta({ format: 'date-time', examples: ['2026-01-31T09:30:00.000Z'] });

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const HOUR_MINUTE = String.raw`(?:[01]\d|2[0-3]):[0-5]\d`;
const SECOND = String.raw`([0-5]\d|60)(?:\.(\d+))?`;
const DATE_TIME = new RegExp(
  String.raw`^\d{4}-\d{2}-\d{2}T${HOUR_MINUTE}:${SECOND}(Z|[+-]${HOUR_MINUTE})$`,
  'i',
);
const DAY_MS = 24 * 3_600_000;

/** The edge of a whole day, or of an instant between two milliseconds, that a limit means. */
export type Edge = 'start' | 'end';

/**
 * Parses an inclusive limit: a date (`YYYY-MM-DD`, UTC) or an RFC 3339 time with an offset. Returns
 * an ISO instant with milliseconds; for a date, its first or last millisecond. Returns null for
 * other text and for impossible dates.
 */
function parseLimit(text: string, edge: Edge): string | null {
  if (!DATE.test(text)) return parseTime(text, edge);
  if (!isCalendarDay(text)) return null;
  const start = Date.parse(text);
  return toIso(edge === 'start' ? start : start + DAY_MS - 1);
}

/** Returns the schema of an inclusive limit, which becomes an ISO instant with milliseconds. */
export function instantLimit(edge: Edge) {
  return z.string().transform((value, context) => {
    const instant = parseLimit(value, edge);
    if (instant !== null) return instant;
    context.addIssue({
      code: 'custom',
      message: `must be a date (YYYY-MM-DD) or an RFC 3339 time with an offset${hintOn(value)}`,
    });
    return z.NEVER;
  });
}

/** Returns what to add to the message about a time that looks like one and is none. */
export function hintOn(value: string): string {
  if (/ \d{2}:\d{2}$/.test(value)) return ': in a query, write + as %2B';
  return DATE.test(value) || DATE_TIME.test(value)
    ? ': this one does not exist, or is not in the years 1 to 9999 of UTC'
    : '';
}

/** Checks the order of two limits, for `refine`. */
export const isOrdered = ({
  from_date,
  to_date,
}: {
  from_date?: string;
  to_date?: string;
}): boolean => from_date === undefined || to_date === undefined || from_date <= to_date;
export const notOrdered = { path: ['from_date'], message: 'must not be later than to_date' };

/**
 * Parses an RFC 3339 time with an offset. Returns an ISO instant with milliseconds, or null. A leap
 * second lies between the last millisecond of its day and the next day.
 */
export function parseTime(text: string, edge: Edge = 'end'): string | null {
  const match = DATE_TIME.exec(text);
  if (!match || !isCalendarDay(text.slice(0, 10))) return null;
  const [, second, fraction = '', offset] = match;
  const isLeap = second === '60';
  const ms = Date.parse((isLeap ? `${text.slice(0, 17)}59.999${offset}` : text).toUpperCase());
  if (isLeap && (ms + 1) % DAY_MS !== 0) return null;
  const finer = isLeap || /[1-9]/.test(fraction.slice(3));
  return toIso(ms + (finer && edge === 'start' ? 1 : 0));
}

/** Rejects February 30, which `Date.parse` takes for March 2. */
function isCalendarDay(date: string): boolean {
  const ms = Date.parse(date);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}

/** Returns null outside the years 1 to 9999: an offset can move a time out of them. */
function toIso(ms: number): string | null {
  if (Number.isNaN(ms)) return null;
  const iso = new Date(ms).toISOString();
  // A year of more digits starts with a sign, which sorts before the digits.
  return iso >= '0001' ? iso : null;
}
