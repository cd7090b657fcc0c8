import { expect, test } from 'vitest';
import { distrust } from '../../../src/domain/protocols/host-keys.ts';

const [A, B, C] = ['a', 'b', 'c'].map((letter) => `SHA256:${letter.repeat(43)}`) as [
  string,
  string,
  string,
];
const T = '2026-06-30T00:00:00.000Z';
const AT = Date.parse(T);
const key = (sha256: string, expires_at: string | null = null) => ({ sha256, expires_at });

test.each([
  ['the only one', A, [key(A)], AT],
  ['one of two', B, [key(A), key(B)], AT],
  ['one that expires later', B, [key(A), key(B, T)], AT - 1],
])('%s is accepted', (_, shown, accepted, now) => {
  expect(distrust(shown, accepted, now)).toBeNull();
});

test.each([
  ['none is accepted', [], 'and none has been accepted for this endpoint'],
  ['another is accepted', [key(A)], `expected ${A}`],
  ['others are accepted', [key(A), key(B, T)], `expected ${A} or ${B} (expired)`],
  ['it has expired', [key(A), key(C, T)], `which expired at ${T}`],
])('a key is rejected if %s', (_, accepted, reason) => {
  expect(distrust(C, accepted, AT)).toBe(`The server presents the host key ${C}, ${reason}`);
});
