import { describe, expect, it } from 'vitest';
import { nextRun, objectionToCron } from '../../../src/domain/flows/trigger.ts';
import { isTimeZone } from '../../../src/domain/time-zone.ts';
import { describeCronYears } from './cron-years.ts';

describeCronYears(false);

describe('a trigger', () => {
  it('comes at a fixed interval, or at the times of a cron expression', () => {
    const from = new Date('2026-03-27T10:00:00Z');
    expect(nextRun({ every: '90s' }, from)?.toISOString()).toBe('2026-03-27T10:01:30.000Z');
    const weekdays = { cron: '0 6 * * 1-5', time_zone: 'Europe/Berlin' };
    expect(nextRun(weekdays, from)?.toISOString()).toBe('2026-03-30T04:00:00.000Z');
  });

  it('goes on through all hours when the clocks change', () => {
    const hourly = { cron: '0 * * * *', time_zone: 'Europe/Berlin' };
    for (const night of ['2026-03-28T22:00:00Z', '2026-10-24T22:00:00Z']) {
      let at = new Date(night);
      for (let hour = 1; hour <= 6; hour++) {
        at = nextRun(hourly, at) as Date;
        expect(at.getTime()).toBe(Date.parse(night) + hour * 3_600_000);
      }
    }
  });

  it('takes a step for an interval when the clocks change', () => {
    const steps = { cron: '*/30 2 * * *', time_zone: 'Europe/Berlin' };
    const next = (from: string) => nextRun(steps, new Date(from))?.toISOString();
    expect(next('2026-03-28T02:00:00Z')).toBe('2026-03-30T00:00:00.000Z');
    expect(next('2026-10-25T00:30:00Z')).toBe('2026-10-25T01:00:00.000Z');
  });

  it.each([
    ['0 6 * * 1-5', null],
    ['* * * *', 'must have five fields: minute, hour, day of the month, month, day of the week'],
    [
      '0 0 6 * * 1',
      'must have five fields: minute, hour, day of the month, month, day of the week',
    ],
    ['@daily', 'must have five fields: minute, hour, day of the month, month, day of the week'],
    ['61 * * * *', 'has 61 as the minute in "61 * * * *": use 0 to 59'],
    ['0 0 0 * *', 'has 0 as the day of the month in "0 0 0 * *": use 1 to 31'],
    ['0 0 1 1,13 *', 'has 1,13 as the month in "0 0 1 1,13 *": use 1 to 12, or JAN to DEC'],
    ['0 0 * * 8', 'has 8 as the day of the week in "0 0 * * 8": use 0 to 7, or SUN to SAT'],
    ['0 0 L * MON#1', null],
    ['0 0 31 2 *', 'never comes'],
  ])('with the cron expression %s has the objection %s', (cron, objection) => {
    expect(objectionToCron(cron)).toBe(objection);
  });

  it('knows time zones by their names', () => {
    expect(['Europe/Berlin', 'UTC', 'Europe/Nowhere', ''].map(isTimeZone)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});
