import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type SftpServer, startSftpServer } from '../../support/file-servers/sftp/server.ts';
import {
  type SshSignInServer,
  startSshSignInServer,
} from '../../support/file-servers/sftp/sign-in-server.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../../support/service/roles.ts';
import { describeTransfers } from '../../support/service/transfers.ts';

await describeTransfers('an endpoint that rejected a sign-in', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let refusing: SshSignInServer;
  let roles: RunningRoles;

  beforeAll(async () => {
    [installation, server, refusing] = await Promise.all([
      openTestInstallation(),
      startSftpServer(),
      startSshSignInServer('password', 'another'),
    ]);
    roles = await startRoles(installation);
    await configureSftp(installation, 'server', server);
    await configure('wrong');
    writeFileSync(join(server.root, 'file'), 'file');
  });
  beforeEach(() => {
    refusing.attempts.length = 0;
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([installation?.close(), server?.stop(), refusing?.stop()]);
  });

  const configure = (password: string) =>
    configureSftp(
      installation,
      'refusing',
      { ...server, port: refusing.port },
      { password, host_key_sha256: refusing.hostKeySha256 },
    );
  const tried = () => refusing.attempts.flatMap(({ password }) => password ?? []);

  async function failTen(): Promise<void> {
    const ids = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        submit(installation, 'sftp://server/file', `sftp://refusing/${i}`),
      ),
    );
    for (const id of ids) {
      const { facts } = await untilStatus(installation, id, 'failed');
      expect(facts).toMatchObject({
        retry_count: 0,
        error: {
          code: 'auth_failed',
          message: 'Authentication failed',
          phase: 'destination_sign_in',
        },
      });
    }
  }

  /** Starts the service again, so nothing that the first process kept in memory remains. */
  async function restart(): Promise<void> {
    await roles.stop();
    roles = await startRoles(installation);
  }

  test('gets one sign-in for all due transfers, then a pause of one minute', async () => {
    await failTen();
    expect(tried()).toEqual(['wrong']);
    const [hold] = await installation.sql<{ seconds: number }[]>`
      select extract(epoch from until - now())::float8 as seconds from work.sign_in_holds`;
    expect(hold?.seconds).toBeGreaterThan(0);
    expect(hold?.seconds).toBeLessThanOrEqual(60);
  });

  test('gets no sign-in from another process during the pause', async () => {
    await restart();
    await failTen();
    expect(tried()).toEqual([]);
  });

  test('gets a sign-in at once with other credentials', async () => {
    await configure('wrong too');
    await failTen();
    expect(tried()).toEqual(['wrong too']);
  });

  test('gets one more sign-in after the minute', async () => {
    await restart();
    await installation.sql`update work.sign_in_holds set until = now() - interval '1 second'`;
    await failTen();
    expect(tried()).toEqual(['wrong too']);
  });
});
