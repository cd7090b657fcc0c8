import { describe, expect, test } from 'vitest';
import { toTheMinute } from '../../src/console/components/values/instants.ts';
import { bytes, inWords, speed } from '../../src/console/components/values/units.ts';

describe('sizes and speeds in the console', () => {
  test.each([
    [null, '–'],
    [0, '0 bytes'],
    [1_023, '1023 bytes'],
    [1_024, '1.0 KiB'],
    [10_189, '10 KiB'],
    [1_048_063, '1023 KiB'],
    [1_048_575, '1.0 MiB'],
    [Number.MAX_SAFE_INTEGER, '8192 TiB'],
  ])('%s bytes: %s', (count, text) => {
    expect(bytes(count)).toBe(text);
  });

  test('a speed is rounded to the unit that shows it', () => {
    expect(speed(999.4)).toBe('999 bit/s');
    expect(speed(999_700)).toBe('1.0 Mbit/s');
  });
});

describe('times in the console', () => {
  test.each([
    ['5m', '5 minutes'],
    ['1h', '1 hour'],
    ['0s', '0 seconds'],
    ['250ms', '250 milliseconds'],
  ])('a duration is in words: %s', (duration, words) => {
    expect(inWords(duration)).toBe(words);
  });

  test.each([
    ['2026-11-30T23:59:59.999Z', '23:59 UTC'],
    ['2026-12-01T00:00:00.000Z', '2026-12-01 00:00 UTC'],
  ])('a time to the minute has its day if it is another one: %s', (at, text) => {
    expect(toTheMinute(new Date(at), new Date('2026-11-30T20:10:00.000Z'), 'utc')).toBe(text);
  });
});
