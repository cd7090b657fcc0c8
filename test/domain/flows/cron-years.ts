import { describe, expect, it } from 'vitest';
import { nextRun } from '../../../src/domain/flows/trigger.ts';

const DAY_MS = 86_400_000;
const BEGIN = Date.UTC(2026, 0, 1);
const YEARS = 10;

/** Fixed times of a day, in the local time of each zone, and the days that have them. */
const SCHEDULES: [cron: string, times: string[], on: (day: Date) => boolean][] = [
  ['30 2 * * *', ['02:30'], () => true],
  ['15 1 * * *', ['01:15'], () => true],
  ['0 0 * * *', ['00:00'], () => true],
  ['0 6 * * 1-5', ['06:00'], (day) => day.getUTCDay() >= 1 && day.getUTCDay() <= 5],
  ['45 1 1,15 * *', ['01:45'], (day) => [1, 15].includes(day.getUTCDate())],
  ['0 2,14 * * *', ['02:00', '14:00'], () => true],
  ['15,45 1-2 * * *', ['01:15', '01:45', '02:15', '02:45'], () => true],
  ['0 0-3 * * 0', ['00:00', '01:00', '02:00', '03:00'], (day) => day.getUTCDay() === 0],
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

    /** Returns when the times of a day come, in their order. */
    const comeAt = (day: number, times: string[]) =>
      times.map((time) => timeOf(day + Date.parse(`1970-01-01T${time}Z`), offset));

    it.each(SCHEDULES)('%s comes once at each of its times', (cron, times, on) => {
      expect(days.length).toBeGreaterThanOrEqual(YEARS * 2 * 3);
      for (const from of days.flatMap((day) => comeAt(day, times))) {
        let day = from - (from % DAY_MS) - DAY_MS;
        const nextOf = () => comeAt(day, times).find((at) => at > from);
        while (!on(new Date(day)) || nextOf() === undefined) day += DAY_MS;
        const found = nextRun({ cron, time_zone: zone }, new Date(from))?.toISOString();
        expect(found, `after ${new Date(from).toISOString()}`).toBe(
          new Date(nextOf() as number).toISOString(),
        );
      }
    });
  });
}
