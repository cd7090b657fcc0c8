import { DomainError } from './errors.ts';

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Converts a duration such as `30s`, `15m`, `12h`, `90d` or `250ms` to milliseconds. Throws
 * `validation_failed`.
 */
export function parseDuration(text: string): number {
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text.trim());
  if (!match) {
    throw new DomainError(
      'validation_failed',
      `"${text}" is not a duration: write a whole number and a unit, such as 30s, 15m, 12h or 90d`,
    );
  }
  return Number(match[1]) * (UNIT_MS[match[2] as string] as number);
}
