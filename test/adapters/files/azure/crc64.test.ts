import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { startCrc64 } from '../../../../src/adapters/files/azure/crc64.ts';

test('the check value is that of CRC-64/NVME, in the byte order of the service', () => {
  const crc = startCrc64();
  crc.update(Buffer.from('123456789'));
  expect(crc.digest().toString('hex')).toBe(
    Buffer.from('ae8b14860a799888', 'hex').reverse().toString('hex'),
  );
  expect(startCrc64().digest()).toEqual(Buffer.alloc(8));
});

test('the result does not depend on how the data is split', () => {
  const data = randomBytes(1000);
  const whole = startCrc64();
  whole.update(data);
  for (const cut of [0, 1, 7, 8, 9, 500, 999, 1000]) {
    const parts = startCrc64();
    parts.update(data.subarray(0, cut));
    parts.update(data.subarray(cut));
    expect(parts.digest()).toEqual(whole.digest());
  }
});
