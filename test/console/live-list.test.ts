import { test } from 'vitest';
import { describeConsole } from '../support/console.ts';
import { watchList } from './watching.ts';

await describeConsole('a list of 10,000 transfers of which 50 move', () => {
  test('does not grow while they move', { timeout: 5 * 60_000 }, () => watchList(12));
});
