import { expect, test } from 'vitest';
import { inWords } from '../../../src/projections/rebuild/difference-words.ts';

test.each([
  [
    { live: { a: 1, b: { c: 'x', d: 2 } }, log: { a: 1, b: { c: 'y', d: 2 } } },
    'k: b.c is "x", and "y" by the log',
  ],
  [
    { live: { a: [1] }, log: { a: [2], b: null } },
    'k: a is [1], and [2] by the log; b is missing, and null by the log',
  ],
  [{ live: 3, log: 2 }, 'k: is 3, and 2 by the log'],
  [{ live: null, log: { a: 1 } }, 'k is missing in the table'],
  [{ live: { a: 1 }, log: null }, 'k is in the table, and does not follow from the log'],
  [{}, 'k differs'],
])('%j', (row, words) => {
  expect(inWords({ key: 'k', ...row })).toBe(words);
});

test('names the first fields of many', () => {
  const row = (value: number) => Object.fromEntries([...'abcdefgh'].map((name) => [name, value]));
  expect(inWords({ key: 'k', live: row(1), log: row(2) })).toMatch(
    /e is 1.*; 3 more fields differ$/,
  );
});
