import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson, inKeyOrder } from '../../../src/domain/events/canonical-json.ts';

/** Keys whose order is easy to get wrong: of numbers, of UTF-16 units, of a prototype. */
const key = fc.oneof(
  fc.constantFrom('2', '10', '', '__proto__', 'toString', '\ufb33', '\u{1f600}', 'B', 'a'),
  fc.string({ unit: 'grapheme' }),
);
const { object } = fc.letrec<{ json: unknown; object: object }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, undefined, 0, -0, 1e21, 1e-7, 0.1),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('json'), { maxLength: 4 }),
    tie('object'),
  ),
  object: fc
    .array(fc.tuple(key, tie('json')), { maxLength: 6 })
    .map((entries) => Object.fromEntries(entries)),
}));

describe('the RFC 8785 form', () => {
  it('is what the library writes, in any order of the keys', () => {
    fc.assert(
      fc.property(object, (value) => {
        expect(canonicalJson(value)).toBe(canonicalize(value));
        expect(canonicalJson(inKeyOrder(value))).toBe(canonicalize(value));
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ['half a character', { text: '\ud800' }],
    ['a key with half a character', { '\udc00': 1, z: 1 }],
    ['no number', { number: Number.NaN }],
    ['an endless number', { list: [Number.POSITIVE_INFINITY] }],
  ])('does not exist for %s', (_, value) => {
    expect(() => canonicalJson(value)).toThrow();
    expect(() => canonicalJson(inKeyOrder(value))).toThrow();
  });

  it('is written without the library once the keys are in order', () => {
    const value = inKeyOrder({ b: { d: 1, c: [{ f: 1, e: 2 }] }, a: 2 });
    expect(JSON.stringify(value)).toBe('{"a":2,"b":{"c":[{"e":2,"f":1}],"d":1}}');
  });
});

describe('data in order', () => {
  it('are the same data', () => {
    fc.assert(
      fc.property(object, (value) => {
        expect(inKeyOrder(value)).toEqual(value);
      }),
    );
  });
});
