import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { createRunningHash } from '../../../../src/processes/mover/hash/running-hash.ts';

const chunk = (number: number) => Buffer.from(`chunk ${number}`);
const first = (count: number) => Buffer.concat(Array.from({ length: count }, (_, i) => chunk(i)));
const bytesOf = (count: number) => first(count).length;
const sha256 = (content: Buffer) => createHash('sha256').update(content).digest();

function hashOf(count: number) {
  const hash = createRunningHash();
  for (let number = 0; number < count; number++) hash.update(chunk(number));
  return hash;
}

test('the sum after a chunk covers all chunks so far', () => {
  const hash = createRunningHash();
  for (let number = 0; number < 3; number++)
    expect(hash.update(chunk(number))).toBe(sha256(first(number + 1)).readUInt32BE(0));
  expect(hash.digest()).toBe(sha256(first(3)).toString('hex'));
});

test.each([0, 1, 4, 5])('it continues after a rewind to %i of 5 chunks', (chunks) => {
  const hash = hashOf(5);
  hash.digest();
  expect(hash.rewind(bytesOf(chunks))).toBe(bytesOf(chunks));
  expect(hash.digest()).toBe(sha256(first(chunks)).toString('hex'));
  for (let number = chunks; number < 6; number++) hash.update(chunk(number));
  expect(hash.digest()).toBe(sha256(first(6)).toString('hex'));
});

test('it can be rewound twice, and back to where it was rewound to', () => {
  const hash = hashOf(5);
  hash.rewind(bytesOf(3));
  hash.update(Buffer.from('other bytes'));
  expect(hash.rewind(bytesOf(3))).toBe(bytesOf(3));
  expect(hash.rewind(bytesOf(1))).toBe(bytesOf(1));
  expect(hash.digest()).toBe(sha256(first(1)).toString('hex'));
});

test('it starts over if it no longer knows the state', () => {
  const hash = hashOf(300);
  expect(hash.rewind(bytesOf(30))).toBe(0);
  expect(hash.digest()).toBe(sha256(first(0)).toString('hex'));
  expect(hashOf(3).rewind(bytesOf(4))).toBe(0);
});
