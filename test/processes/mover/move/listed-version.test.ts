import { expect, it } from 'vitest';
import { assertListed } from '../../../../src/processes/mover/move/listed-version.ts';
import type { Move } from '../../../../src/processes/mover/move/move-state.ts';

const AT = '2026-03-01T10:00:00.000Z';
const SECONDS = Date.parse(AT) / 1_000;

function code(listed: string | null, size: number, modifiedAt: string | null): string | null {
  const identity = { size, version: 'any' };
  try {
    assertListed({ listed } as Move, { identity, modifiedAt });
    return null;
  } catch (error) {
    return (error as { failure: { code: string } }).failure.code;
  }
}

it.each([
  ['the listed file', `7 ${AT}`, 7, String(SECONDS), null],
  ['any file without a listing', null, 8, '1', null],
  ['a file of another size', `7 ${AT}`, 3, String(SECONDS), 'source_replaced'],
  ['a file of another time', `7 ${AT}`, 7, String(SECONDS + 1), 'source_replaced'],
  ['a part of a second more', `7 ${AT}`, 7, `${SECONDS}.25`, null],
  ['a time of another zone', `7 ${AT}`, 7, String(SECONDS - 5.5 * 3_600), null],
  ['a file whose time was not listed', '7 -', 7, String(SECONDS), null],
  ['a file whose server tells no time', `7 ${AT}`, 7, null, null],
  ['a file whose size was not listed', `- ${AT}`, 9, String(SECONDS), null],
])('a move of %s', (_, listed, size, modifiedAt, expected) => {
  expect(code(listed, size, modifiedAt)).toBe(expected);
});
