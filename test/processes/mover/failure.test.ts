import { expect, it } from 'vitest';
import { FileError } from '../../../src/adapters/files/port.ts';
import { onSide } from '../../../src/processes/mover/failure.ts';

it.each([
  ['Authentication failed: private key accepted, password rejected', 'Authentication failed'],
  ['The jump host of `via` rejected the sign-in', 'The jump host of `via` rejected the sign-in'],
])('a rejected sign-in (%s) tells clients no more than the contract', async (message, shown) => {
  const rejected = onSide('source', () => {
    throw new FileError('auth_failed', 'sign_in', message);
  });
  await expect(rejected).rejects.toMatchObject({
    failure: { code: 'auth_failed', message: shown, phase: 'source_sign_in' },
  });
});
