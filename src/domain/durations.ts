import { DomainError } from './errors.ts';

const DAY_MS = 86_400_000;
const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: DAY_MS };
/** A hundred years. The time that is this much earlier or later than now is a valid Date. */
const LONGEST_DAYS = 36_500;

/**
 * Converts a duration such as `30s`, `15m`, `12h`, `90d` or `250ms` to milliseconds. Throws
 * `validation_failed`, also for one of more than a hundred years: a Date cannot hold them all.
 */
export function parseDuration(text: string): number {
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text.trim());
  if (!match) {
    throw new DomainError(
      'validation_failed',
      `"${text}" is not a duration: write a whole number and a unit, such as 30s, 15m, 12h or 90d`,
    );
  }
  const ms = Number(match[1]) * (UNIT_MS[match[2] as string] as number);
  if (ms > LONGEST_DAYS * DAY_MS) {
    throw new DomainError(
      'validation_failed',
      `"${text}" is too long: a duration is at most ${LONGEST_DAYS}d, which is 100 years`,
    );
  }
  return ms;
}

/** Converts a duration as `parseDuration` does. Returns null if it is none of `least` to `most` ms. */
export function durationWithin(text: string, least: number, most: number): number | null {
  try {
    const ms = parseDuration(text);
    return ms >= least && ms <= most ? ms : null;
  } catch (error) {
    if (error instanceof DomainError) return null;
    throw error;
  }
}
