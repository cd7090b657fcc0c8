import fc from 'fast-check';
import picomatch from 'picomatch';
import { describe, expect, test } from 'vitest';
import { objectionToGlob } from '../../src/domain/glob.ts';

describe('a glob', () => {
  test.each([
    '*.csv',
    '**/*.{csv,tsv}',
    '2026/{01,{02,03}}/*',
    '[abc]*',
    '[^abc]',
    '[]]',
    '[^]]',
    '[[]',
    '[{]',
    '[\\]]',
    '[[:alpha:]]*',
    '{}',
    'a]',
    'a}',
    'a)',
    'a(b',
    '@(a|b).csv',
    '\\[a',
    '\\{a',
    'a\\\\',
    '@\\(a',
    '"[a{b"',
  ])('%s is complete', (glob) => {
    expect(objectionToGlob(glob)).toBeNull();
  });

  test.each([
    ['[a', '[', ']'],
    ['*[', '[', ']'],
    ['[]', '[', ']'],
    ['[^]', '[', ']'],
    ['[\\]', '[', ']'],
    ['[[:alpha:]', '[', ']'],
    ['\\\\[a', '[', ']'],
    ['{[}', '[', ']'],
    ['{a', '{', '}'],
    ['{a,{b,c}', '{', '}'],
    ['{a\\}', '{', '}'],
    ['@(a|b', '(', ')'],
    ['!(a', '(', ')'],
  ])('%s is rejected: nothing closes a sign', (glob, open, close) => {
    expect(objectionToGlob(glob)).toBe(
      `has a ${open} without a ${close}: write \\${open} for the character itself`,
    );
  });

  test.each(['\\', 'a\\', 'a\\\\\\'])('%s is rejected: nothing follows its backslash', (glob) => {
    expect(objectionToGlob(glob)).toBe(
      'ends in a backslash that escapes nothing: write \\\\ for the character itself',
    );
  });

  test.each(['/a', '/', '!/a', '/**/*.csv'])('%s is rejected: no path begins so', (glob) => {
    expect(objectionToGlob(glob)).toBe(
      'begins with a slash, which no path below the folder does: leave it out',
    );
  });

  test.each(['a/', '**/', '{a,b}/', '!a/'])('%s is rejected: no path ends so', (glob) => {
    expect(objectionToGlob(glob)).toBe(
      'ends in a slash, which no path of a file does: write ** after it for all files below',
    );
  });

  test('is rejected if picomatch may not end', () => {
    expect(objectionToGlob('a\\\\\\\\')).toContain('more than three backslashes in a row');
    expect(objectionToGlob('a\\\\\\[')).toBeNull();
  });

  test('is complete if picomatch misses nothing that closes', () => {
    // Without parentheses: picomatch also rejects names such as `a(`.
    const sign = fc.constantFrom(...'ab*?!+@/,.^|[]{}\\');
    fc.assert(
      fc.property(fc.string({ unit: sign, minLength: 1, maxLength: 12 }), (glob) => {
        const objection = objectionToGlob(glob);
        fc.pre(objection === null || !/backslash|with a slash|in a slash/.test(objection));
        const strict = { dot: true, strictBrackets: true };
        const compile = () => picomatch.makeRe(glob, strict);
        if (objection !== null) expect(compile).toThrow();
        else expect(compile).not.toThrow(/Missing closing/);
      }),
      { numRuns: 5_000 },
    );
  });
});
