import { describe, expect, test } from 'vitest';
import { bytes, speed } from '../../src/console/components/values/units.ts';

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
