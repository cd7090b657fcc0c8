import { expect, test } from 'vitest';
import { bytes } from '../../../src/cli/program/output.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

test.each([
  [0, '0 bytes'],
  [1023, '1023 bytes'],
  [KIB, '1.0 KiB'],
  [MIB - KIB, '1023.0 KiB'],
  [MIB - 1, '1.0 MiB'],
  [1.5 * MIB, '1.5 MiB'],
  [1024 * MIB - 1, '1.0 GiB'],
  [5000 * 1024 ** 4, '5000.0 TiB'],
])('%i bytes are shown as %s', (count, shown) => {
  expect(bytes(count)).toBe(shown);
});
