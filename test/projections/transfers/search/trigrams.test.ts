import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createTrigramIndex,
  inAll,
  listsOf,
} from '../../../../src/projections/transfers/search/trigrams.ts';

function indexOf(texts: string[]): Map<number, Uint8Array> {
  const index = createTrigramIndex();
  for (const text of texts) index.add(text);
  const lists = [...index.lists(1_000)].flat();
  return new Map(lists.map(({ list, numbers }) => [list, numbers]));
}

/** Returns the numbers of the texts that may have a word. */
function search(index: Map<number, Uint8Array>, texts: string[], word: string): number[] {
  const lists = listsOf(word).map((list) => index.get(list));
  return lists.every((list) => list !== undefined) ? inAll(lists, texts.length) : [];
}

describe('an index of trigrams', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'b', '/', '-', ' ', '7', '\u00a0'),
    size: '+1',
  });

  it('finds every text that has a word', () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 60 }), text, fc.nat(60), (texts, other, i) => {
        const index = indexOf(texts);
        for (const word of `${texts[i] ?? ''} ${other}`
          .split(/\s+/)
          .filter((one) => listsOf(one).length > 0)) {
          const expected = texts.flatMap((one, number) => (one.includes(word) ? number : []));
          expect(search(index, texts, word)).toEqual(expect.arrayContaining(expected));
        }
      }),
    );
  });

  it('can find words of three characters', () => {
    expect(['ab', 'a b c', 'abc', 'abcd'].map((word) => listsOf(word).length)).toEqual([
      0, 0, 1, 2,
    ]);
  });

  it('leaves out texts that lack a trigram of the word, whatever the length of its lists', () => {
    const texts = Array.from({ length: 40_000 }, (_, i) =>
      [
        ...['every', i % 2 === 0 ? 'second' : '', i % 100 === 7 ? 'hundredth' : ''],
        ...[i % 300 === 7 ? 'seldom' : '', i === 5 || i === 39_990 ? 'twice' : ''],
      ].join(' '),
    );
    const index = indexOf(texts);
    for (const word of ['every', 'second', 'hundredth', 'seldom', 'twice', 'never'])
      expect(search(index, texts, word), word).toEqual(
        texts.flatMap((one, number) => (one.includes(word) ? number : [])),
      );
    const bytes = [...index.values()].map(({ length }) => length);
    expect(Math.max(...bytes)).toBe(5_000);
    expect(Math.min(...bytes)).toBe(5);
  });
});
