import { expect, test } from 'vitest';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import { startSshSignInServer } from '../../../support/file-servers/sftp/sign-in-server.ts';

const never = new AbortController().signal;

/** Removes leftovers on a server that answers a listing in this way. */
async function removeOn(listing: 'FAILURE' | 'PERMISSION_DENIED'): Promise<void> {
  const server = await startSshSignInServer('password', 'right', listing);
  const endpoint = createSftpEndpoint({
    settings: {
      protocol: 'sftp',
      host: server.host,
      port: server.port,
      base_path: '/',
      username: 'someone',
      host_key_sha256: server.hostKeySha256,
      host_keys: null,
    },
    credentials: { password: 'right' },
    maxConnections: 1,
  });
  try {
    await endpoint.removeLeftovers('/in/a', { transferId: 'txr_1', resume: null, signal: never });
  } finally {
    await endpoint.close();
    await server.stop();
  }
}

test('a clean-up whose listing failed is not done', async () => {
  await expect(removeOn('FAILURE')).rejects.toMatchObject({ name: 'FileError', step: 'commit' });
});

test('a clean-up in a folder that may not be listed is done', async () => {
  await expect(removeOn('PERMISSION_DENIED')).resolves.toBeUndefined();
});
