import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { leafHash } from '../../../src/domain/proof/hash.ts';
import {
  compareTrees,
  type LoggedLeaf,
  type TreeDifference,
} from '../../../src/processes/verification/compare-trees.ts';
import type { StoredLeaf } from '../../../src/projections/proof/leaves.ts';
import { LONG } from '../../support/run/long.ts';

/** An event of a log of letters: its stream, its revision and its content. */
type Letter = `${string}${number}${string}`;

const nameOf = (letter: Letter) => {
  const [, stream, revision] = /^(\D+)(\d+)/.exec(letter) as unknown as [string, string, string];
  return { stream, revision: Number(revision), id: letter };
};

async function compare(before: Letter[], now: Letter[]): Promise<string[]> {
  const { found, more } = await compareTrees(signed(before), logged(now));
  expect(more).toBe(0);
  return found.map(inWords).sort();
}

async function* signed(letters: Letter[]): AsyncGenerator<StoredLeaf> {
  for (const [index, letter] of letters.entries())
    yield { index, hash: leafHash(letter), name: nameOf(letter) };
}

async function* logged(letters: Letter[]): AsyncGenerator<LoggedLeaf> {
  for (const [i, letter] of letters.entries())
    yield { hash: leafHash(letter), name: nameOf(letter), position: BigInt(i) };
}

function inWords(difference: TreeDifference): string {
  if (difference.kind === 'removed')
    return `removed ${difference.was?.id}${difference.atEnd ? ' at the end' : ''}`;
  return `${difference.kind} ${difference.now.name.id}`;
}

const LOG: Letter[] = ['a0', 'b0', 'a1', 'c0', 'b1', 'a2'];

describe('compareTrees', () => {
  it.each<[string, Letter[], string[]]>([
    ['the same log', LOG, []],
    ['a longer log', [...LOG, 'd0', 'a3'], []],
    ['a changed event', ['a0', 'b0', 'a1x', 'c0', 'b1', 'a2'], ['changed a1x']],
    ['a changed last event', ['a0', 'b0', 'a1', 'c0', 'b1', 'a2x', 'd0'], ['changed a2x']],
    ['a removed event', ['a0', 'b0', 'c0', 'b1', 'a2', 'd0'], ['removed a1']],
    [
      'a removed stream',
      ['b0', 'c0', 'b1', 'd0'],
      ['removed a0', 'removed a1', 'removed a2 at the end'],
    ],
    [
      'a cut end',
      ['a0', 'b0', 'a1'],
      ['removed a2 at the end', 'removed b1 at the end', 'removed c0 at the end'],
    ],
    ['a cut end with new events', ['a0', 'b0', 'a1', 'c0', 'b1', 'd0'], ['removed a2 at the end']],
    ['an empty log', [], LOG.map((letter) => `removed ${letter} at the end`).sort()],
    ['an inserted event', ['a0', 'x0', 'b0', 'a1', 'c0', 'b1', 'a2'], ['inserted x0']],
    ['two swapped events', ['a0', 'a1', 'b0', 'c0', 'b1', 'a2'], ['moved b0']],
    ['an event that moved to the end', ['a0', 'b0', 'c0', 'b1', 'a2', 'a1'], ['moved a1']],
    ['an event that moved ahead', ['a0', 'b1', 'b0', 'a1', 'c0', 'a2'], ['moved b1']],
    [
      'another name of a stream',
      ['a0', 'x0', 'a1', 'c0', 'x1', 'a2'],
      ['inserted x0', 'inserted x1', 'removed b0', 'removed b1'],
    ],
  ])('finds %s', async (_, now, differences) => {
    expect(await compare(LOG, now)).toEqual(differences);
  });

  it('finds long stretches: more than it reads ahead at first', async () => {
    const long = Array.from({ length: 1_000 }, (_, i): Letter => `s${i}`);
    expect(await compare(long, [...long.slice(0, 100), ...long.slice(600)])).toHaveLength(500);
    const inserted = Array.from({ length: 300 }, (_, i): Letter => `x${i}`);
    expect(await compare(long, [...long.slice(0, 9), ...inserted, ...long.slice(9)])).toEqual(
      inserted.map((letter) => `inserted ${letter}`).sort(),
    );
  });

  it('counts what it does not name, if all events of a long end were changed', LONG, async () => {
    const all = 150_000;
    const before = Array.from({ length: all }, (_, i): Letter => `s${i}`);
    const { found, more } = await compareTrees(
      signed(before),
      logged(before.map((letter): Letter => `${letter}x`)),
    );
    expect(found.length + more).toBe(all);
    expect(found.every(({ kind }) => kind === 'changed')).toBe(true);
  });

  it('names every event that is gone or changed, and no other, whatever happened', async () => {
    const letters = fc.uniqueArray(fc.nat(40), { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(letters, letters, async (before, now) => {
        const [old, current] = [before, now].map((ids) => ids.map((id): Letter => `s${id}`)) as [
          Letter[],
          Letter[],
        ];
        const gone = old.filter((letter) => !current.includes(letter));
        const found = await compare(old, current);
        const removed = found.filter((word) => word.startsWith('removed'));
        expect(removed.map((word) => word.split(' ')[1]).sort()).toEqual([...gone].sort());
        const added = found.filter((word) => word.startsWith('inserted'));
        for (const word of added) expect(old).not.toContain(word.split(' ')[1]);
      }),
    );
  });
});
