import { afterEach, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import {
  type SshSignInServer,
  startSshSignInServer,
} from '../../../support/file-servers/sftp/sign-in-server.ts';

const never = new AbortController().signal;
let server: SshSignInServer;
let endpoint: FileEndpoint;

afterEach(async () => {
  await endpoint?.close();
  await server?.stop();
});

async function endpointOn(
  method: 'password' | 'keyboard-interactive',
  password: string,
  hostKey?: string,
): Promise<FileEndpoint> {
  server = await startSshSignInServer(method, 'the right one');
  endpoint = createSftpEndpoint({
    settings: {
      protocol: 'sftp',
      host: server.host,
      port: server.port,
      base_path: '/',
      username: 'someone',
      host_key_sha256: hostKey ?? server.hostKeySha256,
      host_keys: null,
    },
    credentials: { password },
    maxConnections: 4,
  });
  return endpoint;
}

test.each(['password', 'keyboard-interactive'] as const)(
  '%s works when the server offers nothing else',
  async (method) => {
    const { list } = await endpointOn(method, 'the right one');
    expect(await list('/', never)).toEqual([]);
    expect(server.attempts).toEqual([{ method: 'none' }, { method, password: 'the right one' }]);
  },
);

test.each(['password', 'keyboard-interactive'] as const)(
  'a wrong password is tried once, by %s, also for concurrent transfers',
  async (method) => {
    const { list } = await endpointOn(method, 'a wrong one');
    const refused = { code: 'auth_failed', step: 'sign_in', message: 'Authentication failed' };
    await Promise.all(
      Array.from({ length: 8 }, () => expect(list('/', never)).rejects.toMatchObject(refused)),
    );
    expect(server.attempts).toEqual([{ method: 'none' }, { method, password: 'a wrong one' }]);
  },
);

test('nothing is sent to a server with another host key', async () => {
  const { list, probe } = await endpointOn('password', 'the right one', `SHA256:${'B'.repeat(43)}`);
  await expect(list('/', never)).rejects.toMatchObject({ code: 'host_key_mismatch' });
  expect((await probe(never)).fingerprint).toBe(server.hostKeySha256);
  expect(server.attempts).toEqual([]);
});

test('a probe does not sign in', async () => {
  const { probe } = await endpointOn('password', 'the right one');
  expect(await probe(never)).toEqual({
    fingerprint: server.hostKeySha256,
    trusted: true,
    reason: null,
  });
  expect(server.attempts).toEqual([]);
});
