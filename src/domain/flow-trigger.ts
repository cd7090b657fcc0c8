import { Cron } from 'croner';
import { parseDuration } from './durations.ts';

/** When a flow runs: at a fixed interval, or at the times of a cron expression. */
export type FlowTrigger = { every: string } | { cron: string; time_zone: string };

/** Shortest and longest interval between two runs, in milliseconds. */
export const EVERY_MS = { least: 5_000, most: 31 * 24 * 3_600_000 };

/**
 * Returns the first time after `from` at which a trigger runs; null if there is none. When the
 * clocks go forward, what falls into the missing hour runs once, at its end. When they go back,
 * what names a time in the repeated hour runs once, in the first one. A step through all hours,
 * such as `0 * * * *`, runs in both.
 */
export function nextRun(trigger: FlowTrigger, from: Date): Date | null {
  if ('every' in trigger) return new Date(from.getTime() + parseDuration(trigger.every));
  return scheduleOf(trigger).nextRun(from);
}

/** Returns what is wrong with a cron expression, as text that follows its name; null if nothing. */
export function objectionToCron(cron: string): string | null {
  if (cron.trim().split(/\s+/).length !== 5)
    return 'must have five fields: minute, hour, day of the month, month, day of the week';
  try {
    return scheduleOf({ cron, time_zone: 'UTC' }).nextRun() === null ? 'never comes' : null;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return `is not a cron expression: ${reason.replace(/^CronPattern: /, '')}`;
  }
}

function scheduleOf({ cron, time_zone }: { cron: string; time_zone: string }): Cron {
  return new Cron(cron, { timezone: time_zone, mode: '5-part', paused: true });
}
