import { describe, expect, it } from 'vitest';
import { nextRun } from '../../../src/domain/flows/trigger.ts';

const DAY_MS = 86_400_000;
const BEGIN = Date.UTC(2026, 0, 1);
const YEARS = 10;

/**
 * Fixed times of a day, in the local time of each zone: hour, minute and the days that they have.
 */
const SCHEDULES: [cron: string, hour: number, minute: number, on: (day: Date) => boolean][] = [
  ['30 2 * * *', 2, 30, () => true],
  ['15 1 * * *', 1, 15, () => true],
  ['0 0 * * *', 0, 0, () => true],
  ['0 6 * * 1-5', 6, 0, (day) => day.getUTCDay() >= 1 && day.getUTCDay() <= 5],
  ['45 1 1,15 * *', 1, 45, (day) => [1, 15].includes(day.getUTCDate())],
];

/** Lord Howe changes its clocks by half an hour, Santiago at midnight. */
const ZONES = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'America/Santiago'];

/** How far the clocks of a zone are ahead of UTC, in milliseconds. */
function createOffset(timeZone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  return (at) => {
    const parts = Object.fromEntries(
      format.formatToParts(at).map(({ type, value }) => [type, Number(value)]),
    );
    const { year = 0, month = 0, day, hour, minute } = parts;
    return Date.UTC(year, month - 1, day, hour, minute) - Math.floor(at / 60_000) * 60_000;
  };
}

/**
 * Returns when a local time comes, by the rules of the zone alone: the first time if it comes
 * twice, and the end of the gap if it does not come.
 */
function timeOf(local: number, offset: (at: number) => number): number {
  const around = [offset(local - DAY_MS), offset(local + DAY_MS)] as const;
  const found = around.map((ahead) => local - ahead).filter((at) => at + offset(at) === local);
  if (found.length > 0) return Math.min(...found);
  let [before, after] = [local - DAY_MS, local + DAY_MS];
  while (after - before > 60_000) {
    const middle = before + Math.floor((after - before) / 120_000) * 60_000;
    if (offset(middle) === around[0]) before = middle;
    else after = middle;
  }
  return after;
}

/**
 * Compares the library's times with the rules of the zones, over ten years: in the days around each
 * change of the clocks, or on all days.
 */
export function describeCronYears(allDays: boolean): void {
  describe.each(ZONES)('ten years of cron in %s', (zone) => {
    const offset = createOffset(zone);
    const days: number[] = [];
    for (let day = BEGIN; day < BEGIN + YEARS * 365 * DAY_MS; day += DAY_MS)
      if (allDays || offset(day - 2 * DAY_MS) !== offset(day + 2 * DAY_MS)) days.push(day);

    it.each(SCHEDULES)('%s comes once on each of its days', (cron, hour, minute, on) => {
      expect(days.length).toBeGreaterThanOrEqual(YEARS * 2 * 3);
      const local = (day: number) => timeOf(day + (hour * 60 + minute) * 60_000, offset);
      for (const day of days) {
        let next = day;
        while (!on(new Date(next)) || local(next) <= local(day)) next += DAY_MS;
        const found = nextRun({ cron, time_zone: zone }, new Date(local(day)))?.toISOString();
        expect(found, `after ${new Date(local(day)).toISOString()}`).toBe(
          new Date(local(next)).toISOString(),
        );
      }
    });
  });
}
