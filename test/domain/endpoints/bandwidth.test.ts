import { describe, expect, it } from 'vitest';
import { type BandwidthWindow, DAYS, limitAt } from '../../../src/domain/endpoints/bandwidth.ts';

const OUTSIDE = 9_000;
const INSIDE = 5_000;

function window(changes: Partial<BandwidthWindow>): BandwidthWindow {
  const all = { days: [...DAYS], from: '08:00', to: '18:00', time_zone: 'UTC' };
  return { ...all, bytes_per_second: INSIDE, ...changes };
}

/** Returns whether the window holds at each of the times. */
function holds(changes: Partial<BandwidthWindow>, ...times: string[]): boolean[] {
  const bandwidth = { bytes_per_second: OUTSIDE, windows: [window(changes)] };
  return times.map((time) => limitAt(bandwidth, new Date(time)) === INSIDE);
}

/** The last millisecond before a time. */
const justBefore = (time: string) => new Date(Date.parse(time) - 1).toISOString();

describe('the limit of an endpoint', () => {
  it('is none without a setting', () => {
    const now = new Date();
    expect(limitAt(null, now)).toBeNull();
    expect(limitAt(undefined, now)).toBeNull();
    expect(limitAt({ bytes_per_second: null, windows: [] }, now)).toBeNull();
    expect(limitAt({ bytes_per_second: OUTSIDE, windows: [] }, now)).toBe(OUTSIDE);
  });

  it('is that of the first window that holds', () => {
    const noon = window({ from: '12:00', to: '13:00', bytes_per_second: null });
    const bandwidth = { bytes_per_second: OUTSIDE, windows: [noon, window({})] };
    const at = (time: string) => limitAt(bandwidth, new Date(`2026-03-04T${time}Z`));
    expect(at('07:59:59.999')).toBe(OUTSIDE);
    expect(at('08:00:00.000')).toBe(INSIDE);
    expect(at('12:00:00.000')).toBeNull();
    expect(at('13:00:00.000')).toBe(INSIDE);
    expect(at('18:00:00.000')).toBe(OUTSIDE);
  });

  it('holds on the days of the window, which are those on which it begins', () => {
    const nights: Partial<BandwidthWindow> = { days: ['fri', 'sun'], from: '22:00', to: '06:00' };
    // 2026-03-06 is a Friday.
    const times = {
      '2026-03-06T05:59:00Z': false,
      '2026-03-06T21:59:00Z': false,
      '2026-03-06T22:00:00Z': true,
      '2026-03-07T05:59:00Z': true,
      '2026-03-07T06:00:00Z': false,
      '2026-03-07T22:00:00Z': false,
      '2026-03-08T05:59:00Z': false,
      '2026-03-08T22:00:00Z': true,
      '2026-03-09T05:59:00Z': true,
      '2026-03-09T22:00:00Z': false,
    };
    expect(holds(nights, ...Object.keys(times))).toEqual(Object.values(times));
  });

  it('holds for a whole day, up to midnight', () => {
    const sunday: Partial<BandwidthWindow> = { days: ['sun'], from: '00:00', to: '24:00' };
    const times = ['2026-03-08T00:00:00Z', '2026-03-09T00:00:00Z'];
    expect(holds(sunday, ...times)).toEqual([true, false]);
    expect(holds(sunday, ...times.map(justBefore))).toEqual([false, true]);
  });

  /** Offsets from UTC in January and July, by the tables of the zones and not by this code. */
  it.each([
    ['UTC', '+00:00', '+00:00'],
    ['Europe/Berlin', '+01:00', '+02:00'],
    ['America/New_York', '-05:00', '-04:00'],
    ['America/Los_Angeles', '-08:00', '-07:00'],
    ['America/Sao_Paulo', '-03:00', '-03:00'],
    ['America/St_Johns', '-03:30', '-02:30'],
    ['Asia/Kathmandu', '+05:45', '+05:45'],
    ['Asia/Tokyo', '+09:00', '+09:00'],
    ['Australia/Lord_Howe', '+11:00', '+10:30'],
    ['Pacific/Auckland', '+13:00', '+12:00'],
    ['Pacific/Kiritimati', '+14:00', '+14:00'],
  ])('follows the clocks and days of %s', (time_zone, january, july) => {
    for (const [wednesday, offset] of [
      ['2026-01-14', january],
      ['2026-07-15', july],
    ]) {
      const from = `${wednesday}T08:00:00${offset}`;
      const to = `${wednesday}T18:00:00${offset}`;
      const times = [justBefore(from), from, justBefore(to), to];
      expect(holds({ time_zone, days: ['wed'] }, ...times)).toEqual([false, true, true, false]);
      expect(holds({ time_zone, days: ['tue', 'thu'] }, ...times)).not.toContain(true);
    }
  });

  it('begins at the end of an hour that is missing, and holds twice in one that is repeated', () => {
    const berlin = { time_zone: 'Europe/Berlin' };
    // The clocks go from 2:00 to 3:00 at 1:00 UTC.
    const missing = { ...berlin, from: '02:30', to: '04:00' };
    const spring = ['2026-03-29T01:00:00Z', '2026-03-29T02:00:00Z'];
    expect(holds(missing, ...spring)).toEqual([true, false]);
    expect(holds(missing, ...spring.map(justBefore))).toEqual([false, true]);
    // They go from 3:00 back to 2:00 at 1:00 UTC.
    const repeated = { ...berlin, from: '02:00', to: '03:00' };
    const autumn = ['2026-10-25T00:00:00Z', '2026-10-25T01:00:00Z', '2026-10-25T02:00:00Z'];
    expect(holds(repeated, ...autumn)).toEqual([true, true, false]);
    expect(holds(repeated, ...autumn.map(justBefore))).toEqual([false, true, true]);
  });

  it('goes over a midnight before the clocks change', () => {
    const saturday: Partial<BandwidthWindow> = {
      time_zone: 'America/New_York',
      days: ['sat'],
      from: '22:00',
      to: '06:00',
    };
    // An hour shorter on 2026-03-08, an hour longer on 2026-11-01.
    for (const [from, to] of [
      ['2026-03-08T03:00:00Z', '2026-03-08T10:00:00Z'],
      ['2026-11-01T02:00:00Z', '2026-11-01T11:00:00Z'],
    ] as const) {
      expect(holds(saturday, from, to)).toEqual([true, false]);
      expect(holds(saturday, justBefore(from), justBefore(to))).toEqual([false, true]);
    }
  });
});
