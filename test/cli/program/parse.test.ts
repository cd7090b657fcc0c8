import { expect, test } from 'vitest';
import { globs } from '../../../src/cli/program/parse.ts';

test.each([
  ['*.tmp, *.bak', ['*.tmp', '*.bak']],
  ['*.{tmp,bak},old/**', ['*.{tmp,bak}', 'old/**']],
  ['[,;]*,@(a,b)|c', ['[,;]*', '@(a,b)|c']],
  ['a\\,b,report (1', ['a\\,b', 'report (1']],
  ['x{y,z', ['x{y', 'z']],
  ['a,', ['a', '']],
])('the list of globs %s is split where a comma separates two', (text, list) => {
  expect(globs(text)).toEqual(list);
});

test('an option with globs that is repeated adds to them', () => {
  expect(globs('*.{tmp,bak}', globs('a,b'))).toEqual(['a', 'b', '*.{tmp,bak}']);
});
