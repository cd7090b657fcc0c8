import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { TIMEOUTS } from '../../../../src/adapters/files/connection-timeouts.ts';
import { openConnection } from '../../../../src/adapters/files/sftp/connection.ts';
import type { Connection } from '../../../../src/adapters/files/sftp/session.ts';
import {
  startSshSignInServer,
  UNANSWERED,
} from '../../../support/file-servers/sftp/sign-in-server.ts';

test('a connection ends if one request gets no answer, while later ones do', async () => {
  const server = await startSshSignInServer('password', 'a password');
  onTestFinished(() => server.stop());
  const { host, port, hostKeySha256: host_key_sha256 } = server;
  const settings = { protocol: 'sftp', host, port, base_path: '/', username: 'me' } as const;
  const connection = await openConnection({
    settings: { ...settings, host_key_sha256, host_keys: null },
    credentials: { password: 'a password' },
    timeouts: { ...TIMEOUTS, stallMs: 400, slowMs: 100 },
    fastPath: false,
    announce: () => {},
  });
  onTestFinished(() => connection.close());
  const unanswered = expect(statOf(connection, UNANSWERED)).rejects.toMatchObject({
    code: 'ESTALLED',
    message: 'the server did not answer a request for 0.6 s, but answered later ones',
  });
  while (connection.usable) {
    await statOf(connection, '/another').catch(() => {});
    await pause(50);
  }
  await unanswered;
});

function statOf(connection: Connection, path: string): Promise<unknown> {
  return connection.request((sftp, done) => sftp.stat(path, done));
}
