import { expect, onTestFinished, test } from 'vitest';
import { endpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import { startSshSignInServer } from '../../../support/file-servers/sftp/sign-in-server.ts';

test.each([0, 1, 1023])('a server that takes %i bytes in a message is of no use', async (bytes) => {
  const server = await startSshSignInServer('password', 'a password', [], bytes);
  const endpoint = endpointOn({ ...server, username: 'me', password: 'a password' });
  onTestFinished(async () => {
    await endpoint.close();
    await server.stop();
  });
  await expect(endpoint.list('/', new AbortController().signal)).rejects.toMatchObject({
    code: 'connection_failed',
    message: expect.stringContaining(`takes or sends only ${bytes} bytes in a message`),
  });
});
