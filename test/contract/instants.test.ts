import { expect, test } from 'vitest';
import { parseTime } from '../../src/contract/instants.ts';

const LAST_OF_2016 = '2016-12-31T23:59:59.999Z';
const FIRST_OF_2017 = '2017-01-01T00:00:00.000Z';

test.each([
  '2016-12-31T23:59:60Z',
  '2016-12-31T23:59:60.5Z',
  '2017-01-01t00:59:60+01:00',
  '2016-12-31T18:29:60-05:30',
])('the leap second %s lies between two days', (text) => {
  expect([parseTime(text, 'start'), parseTime(text, 'end')]).toEqual([FIRST_OF_2017, LAST_OF_2016]);
});

test.each([
  '2016-12-31T23:58:60Z',
  '2016-12-31T12:59:60Z',
  '2016-12-31T23:59:60+01:00',
  '2016-12-31T23:59:61Z',
])('%s is no time: a leap second is at the end of a day in UTC', (text) => {
  expect(parseTime(text)).toBeNull();
});

test.each([
  ['2016-12-31T23:59:59Z', '2016-12-31T23:59:59.000Z', '2016-12-31T23:59:59.000Z'],
  ['2016-12-31T23:59:59.9991Z', FIRST_OF_2017, LAST_OF_2016],
  ['2016-12-31T23:59:59.9990+00:00', LAST_OF_2016, LAST_OF_2016],
])('%s lies at or between two milliseconds', (text, start, end) => {
  expect([parseTime(text, 'start'), parseTime(text, 'end')]).toEqual([start, end]);
});
