import { describe, expect, it } from 'vitest';
import { nextRun, objectionToCron } from '../../src/domain/flow-trigger.ts';
import { isTimeZone } from '../../src/domain/time-zone.ts';
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

  it.each([
    ['0 6 * * 1-5', null],
    ['* * * *', 'must have five fields: minute, hour, day of the month, month, day of the week'],
    [
      '0 0 6 * * 1',
      'must have five fields: minute, hour, day of the month, month, day of the week',
    ],
    ['@daily', 'must have five fields: minute, hour, day of the month, month, day of the week'],
    ['61 * * * *', 'is not a cron expression: Invalid value for minute: 61'],
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
