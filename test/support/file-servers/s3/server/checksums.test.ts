import { expect, test } from 'vitest';
import { ALGORITHMS, combine, createChecksum } from './checksums.ts';

// The check values of the CRC catalogue, for the digits 1 to 9.
test.for([
  ['CRC32', 'cbf43926'],
  ['CRC32C', 'e3069283'],
  ['CRC64NVME', 'ae8b14860a799888'],
  ['SHA1', 'f7c3bc1d808e04732adf679965ccc34ca7ae3441'],
  ['SHA256', '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225'],
] as const)('%s', ([algorithm, expected]) => {
  const checksum = createChecksum(algorithm);
  for (const part of ['1234', '', '56789']) checksum.update(Buffer.from(part));
  expect(checksum.digest().toString('hex')).toBe(expected);
});

test.for(ALGORITHMS.filter((name) => name.startsWith('CRC')))(
  'the %s of a whole follows from those of its parts',
  (algorithm) => {
    const parts = ['a first part, ', 'x', '', ' and the last'];
    const digest = (text: string) => {
      const checksum = createChecksum(algorithm);
      checksum.update(Buffer.from(text));
      return checksum.digest();
    };
    const combined = combine(
      algorithm,
      parts.map((part) => ({ digest: digest(part), size: part.length })),
    );
    expect(combined).toEqual(digest(parts.join('')));
  },
);
