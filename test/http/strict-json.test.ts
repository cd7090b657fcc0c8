import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DomainError } from '../../src/domain/errors.ts';
import { parseStrictly } from '../../src/http/requests/strict-json.ts';

function fieldsOf(text: string): string[] {
  try {
    parseStrictly(text);
  } catch (error) {
    return ((error as DomainError).details.errors ?? []).map(({ field }) => field);
  }
  return [];
}

describe('strict JSON', () => {
  test.each([
    ['{"a":1,"a":1}', ['a']],
    ['{"a":1,"\\u0061":2}', ['a']],
    ['{"metadata":{"order":"1","x":{},"order":"2"}}', ['metadata.order']],
    ['[{"a":1},{"a":1,"b":[0,{"c":1,"c":2}]}]', ['[1].b[1].c']],
    ['{"items":[{"a":1},{"a":1,"a":2}]}', ['items[1].a']],
    ['{"a":1,"a":2,"a":3}', ['a']],
    ['{"a":{"a":1},"b":{"a":1}}', []],
    ['{"a":"a","b":"b\\":1,\\"b"}', []],
    ['{"a":1,"a":2,"b":3,"b":4}', ['a', 'b']],
    ['{"":1,"":2}', ['""']],
    ['{"__proto__":1}', ['__proto__']],
    ['{"a":{"_\\u005fproto__":1}}', ['a.__proto__']],
    ['{"a":{"\\udc00":1},"\\ud83d\\ude9a":1}', ['a.\ufffd']],
    ['{"constructor":1,"toString":2}', []],
    ['"__proto__"', []],
    ['{"a":"__proto__"}', []],
  ])('finds the faulty keys of %s', (text, fields) => {
    expect(fieldsOf(text)).toEqual(fields);
  });

  test('names the first 100 faults and counts the others', () => {
    const text = `[${Array(150).fill('{"a":1,"a":2}').join()}]`;
    expect(fieldsOf(text)).toHaveLength(100);
    expect(() => parseStrictly(text)).toThrow(/; \[99\]\.a: must be given once; and 50 more$/);
  });

  test('rejects nesting that no request has, so that no name of a field is long', () => {
    const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
    expect(() => parseStrictly(nested(65))).toThrow('nested deeper than 64 levels');
    expect(parseStrictly(nested(64))).toEqual(JSON.parse(nested(64)));
    const long = `"${'k'.repeat(1_000)}"`;
    expect(fieldsOf(`{${long}:{"a":1,"a":2}}`)).toEqual([`${'k'.repeat(100)}....a`]);
  });

  test('parses like JSON.parse if no object has duplicate keys', () => {
    const json = fc.json().filter((text) => !/__proto__/.test(text));
    fc.assert(
      fc.property(json, (text) => {
        expect(parseStrictly(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  test('finds every key that is inserted twice into an object', () => {
    const object = fc.dictionary(
      fc.string({ unit: 'binary' }).filter((key) => key !== '__proto__'),
      fc.jsonValue(),
      { minKeys: 1, maxKeys: 5 },
    );
    fc.assert(
      fc.property(object, fc.nat(), (value, nth) => {
        const keys = Object.keys(value);
        const [twice] = keys.slice(nth % keys.length);
        fc.pre(twice !== undefined && !JSON.stringify(value).includes('__proto__'));
        const text = JSON.stringify(value);
        expect(fieldsOf(`${text.slice(0, -1)},${JSON.stringify(twice)}:0}`)).toEqual([
          twice || '""',
        ]);
      }),
    );
  });

  test.each(['', '{', '{"a":1,}', '{"a":1,"a"}', "{'a':1}"])('rejects %s', (text) => {
    expect(() => parseStrictly(text)).toThrow(SyntaxError);
  });
});
