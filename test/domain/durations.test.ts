import { describe, expect, it, test } from 'vitest';
import { durationWithin, parseDuration } from '../../src/domain/durations.ts';

describe('parseDuration', () => {
  it.each([
    ['250ms', 250],
    ['30s', 30_000],
    ['15m', 900_000],
    ['12h', 43_200_000],
    ['90d', 7_776_000_000],
    ['0s', 0],
    [' 1s ', 1_000],
    ['36500d', 36_500 * 86_400_000],
  ])('%j', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it.each([
    '',
    '30',
    's',
    '-1s',
    '1.5h',
    '1e3s',
    '1 s',
    '1w',
    '1S',
    '30s15m',
    '9999999999s',
    '٣s',
    'never',
    'constructor',
  ])('rejects %j', (text) => {
    expect(() => parseDuration(text)).toThrow(
      expect.objectContaining({ name: 'DomainError', code: 'validation_failed' }),
    );
  });

  it.each(['36501d', '999999999d', '876001h'])('rejects %j, which is too long', (text) => {
    expect(() => parseDuration(text)).toThrow(
      expect.objectContaining({
        name: 'DomainError',
        code: 'validation_failed',
        message: `"${text}" is too long: a duration is at most 36500d, which is 100 years`,
      }),
    );
  });
});

test.each([
  ['0s', null],
  ['1ms', 1],
  ['2s', 2_000],
  ['2001ms', null],
  ['999999999d', null],
  ['soon', null],
])('a duration of 1 ms to 2 s: %j', (text, ms) => {
  expect(durationWithin(text, 1, 2_000)).toBe(ms);
});
