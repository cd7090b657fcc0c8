import { Cron } from 'croner';
import { parseDuration } from '../durations.ts';

/** When a flow runs: at a fixed interval, or at the times of a cron expression. */
export type FlowTrigger = { every: string } | { cron: string; time_zone: string };

/** Shortest and longest interval between two runs, in milliseconds. */
export const EVERY_MS = { least: 5_000, most: 31 * 24 * 3_600_000 };

/**
 * Returns the first time after `from` at which a trigger runs; null if there is none. When the
 * clocks go forward, what falls into the missing hour runs once, at its end. When they go back,
 * what names a time in the repeated hour runs once, in the first one. An expression with `*` or `/`
 * in the minute or hour, such as `0 * * * *`, is an interval: it skips the missing hour, and runs
 * in both passes of the repeated one.
 */
export function nextRun(trigger: FlowTrigger, from: Date): Date | null {
  if ('every' in trigger) return new Date(from.getTime() + parseDuration(trigger.every));
  return scheduleOf(trigger).nextRun(from);
}

const CRON_FIELDS = [
  { name: 'minute', values: '0 to 59' },
  { name: 'hour', values: '0 to 23' },
  { name: 'day of the month', values: '1 to 31' },
  { name: 'month', values: '1 to 12, or JAN to DEC' },
  { name: 'day of the week', values: '0 to 7, or SUN to SAT' },
];

/** Returns what is wrong with a cron expression, as text that follows its name; null if nothing. */
export function objectionToCron(cron: string): string | null {
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== CRON_FIELDS.length)
    return `must have five fields: ${CRON_FIELDS.map(({ name }) => name).join(', ')}`;
  if (isCron(cron)) return scheduleOf({ cron, time_zone: 'UTC' }).nextRun() ? null : 'never comes';
  // The messages of croner count days and months from 0, and do not name the expression.
  const wrong = fields.findIndex(
    (field, i) => !isCron(CRON_FIELDS.map((_, j) => (i === j ? field : '*')).join(' ')),
  );
  const found = CRON_FIELDS[wrong];
  return found
    ? `has ${fields[wrong]} as the ${found.name} in "${cron}": use ${found.values}`
    : `is not a cron expression: "${cron}"`;
}

function isCron(text: string): boolean {
  try {
    scheduleOf({ cron: text, time_zone: 'UTC' });
    return true;
  } catch {
    return false;
  }
}

function scheduleOf({ cron, time_zone }: { cron: string; time_zone: string }): Cron {
  // By default, croner takes `0 2,14 * * *` for an interval: it would skip 02:00 in spring.
  const fixedTimeRule = 'no-wildcard';
  return new Cron(cron, { timezone: time_zone, mode: '5-part', fixedTimeRule, paused: true });
}
