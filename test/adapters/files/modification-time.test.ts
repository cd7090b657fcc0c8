import { expect, test } from 'vitest';
import {
  fromFtp,
  fromRfc3339,
  toFtp,
  toRfc3339,
  toUnixTime,
} from '../../../src/adapters/files/modification-time.ts';

test.each([
  ['1700000000', '2023-11-14T22:13:20Z', '2023-11-14T22:13:20.000000000Z', '20231114221320'],
  [
    '1700000000.25',
    '2023-11-14T22:13:20.25Z',
    '2023-11-14T22:13:20.250000000Z',
    '20231114221320.250',
  ],
  ['0.000000001', '1970-01-01T00:00:00.000000001Z', '1970-01-01T00:00:00.000000001Z', null],
])('%s is the same time in every form', (time, short, long, ftp) => {
  expect(toUnixTime(time)).toBe(time);
  expect(toRfc3339(time)).toBe(short);
  expect(toRfc3339(time, 9)).toBe(long);
  expect(fromRfc3339(short)).toBe(time);
  expect(fromRfc3339(long)).toBe(time);
  if (ftp === null) return;
  expect(fromFtp(ftp)).toBe(time);
  expect(toFtp(time)).toBe(ftp.slice(0, 14));
});

test('an offset counts', () => {
  expect(fromRfc3339('2023-11-14T23:13:20+01:00')).toBe('1700000000');
});

test.each(['', 'yesterday', '-1', '1e3', '1.0000000001', '253402300800', null, undefined])(
  '%j is no time',
  (value) => {
    expect(toUnixTime(value)).toBeNull();
    expect(fromRfc3339(value)).toBeNull();
    expect(fromFtp(value ?? null)).toBeNull();
  },
);
