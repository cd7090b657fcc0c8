import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pauseEndpoint, removeEndpoint } from '../../src/commands/endpoints.ts';
import type { Transfer } from '../../src/domain/transfers/transfer.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import {
  type SshSignInServer,
  startSshSignInServer,
} from '../support/file-servers/sftp/sign-in-server.ts';
import { freePort } from '../support/network/free-port.ts';
import { startTcpProxy } from '../support/network/tcp-proxy.ts';
import { LONG } from '../support/run/long.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import {
  describeTransfers,
  filesBelow,
  historyOf,
  sha256Of,
  storyOf,
  until,
  untilCleanedUp,
} from '../support/service/transfers.ts';

const ONE_ATTEMPT = ['created', 'queued: admitted', 'in_progress', 'failed'];
const PINNED_TO_ANOTHER = `SHA256:${'A'.repeat(43)}`;
const RETRY_DELAYS_MS = [150, 300];

await describeTransfers('transfers that fail', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let readOnly: SftpServer;
  let prying: SshSignInServer;
  let roles: RunningRoles;

  beforeAll(async () => {
    const settings = {
      WAYBILL_TRANSFER_RETRY_DELAYS: RETRY_DELAYS_MS.map((delay) => `${delay}ms`).join(','),
    };
    [installation, alpha, beta, readOnly, prying] = await Promise.all([
      openTestInstallation(settings),
      startSftpServer(),
      startSftpServer(),
      startSftpServer({ readOnly: true }),
      startSshSignInServer('password', 'the password'),
    ]);
    roles = await startRoles(installation);
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', beta);
    writeFileSync(join(alpha.root, 'file'), 'file');
  });

  afterAll(async () => {
    await roles?.stop();
    await Promise.all([
      installation?.close(),
      alpha?.stop(),
      beta?.stop(),
      readOnly?.stop(),
      prying?.stop(),
    ]);
  });

  async function failing(
    source: string,
    destination: string,
  ): Promise<{ id: string; failed: Extract<Transfer, { status: 'failed' }> }> {
    const id = await submit(installation, source, destination);
    return {
      id,
      failed: (await untilStatus(installation, id, ['failed', 'completed'])) as Extract<
        Transfer,
        { status: 'failed' }
      >,
    };
  }

  /** Expects a failure at the first attempt, with advice. */
  async function failsForGood(
    source: string,
    destination: string,
    error: Record<string, unknown>,
  ): Promise<void> {
    const { id, failed } = await failing(source, destination);
    expect(failed).toMatchObject({
      status: 'failed',
      facts: { retry_count: 0, error: { ...error, retryable: false, attempts: 1 } },
    });
    expect(failed.facts.error?.advice).toMatch(/^[A-Z].{30,}/);
    expect(failed.facts.error?.occurred_at).toBe(failed.failed_at);
    expect(await storyOf(installation, id)).toEqual(ONE_ATTEMPT);
  }

  const pryingEndpoint = (name: string, hostKey: string | null) =>
    configureSftp(
      installation,
      name,
      { ...alpha, port: prying.port },
      { password: 'the password', host_key_sha256: hostKey },
    );

  test('a wrong password fails the transfer', async (ctx) => {
    if (alpha.password === undefined) return ctx.skip('OpenSSH checks passwords for root only');
    await configureSftp(installation, 'wrong-password', alpha, { password: 'not it' });
    await failsForGood('sftp://wrong-password/file', 'sftp://beta/x', {
      code: 'auth_failed',
      message: 'Authentication failed',
      phase: 'source_sign_in',
    });
  });

  test('a key that the server does not accept fails the transfer', async () => {
    await configureSftp(installation, 'wrong-key', beta, { private_key: alpha.privateKey });
    const error = {
      code: 'auth_failed',
      message: 'Authentication failed',
      phase: 'destination_sign_in',
    };
    await failsForGood('sftp://alpha/file', 'sftp://wrong-key/x', error);
  });

  test.each([
    ['source_sign_in', 'sftp://locking/file', 'sftp://beta/x'],
    ['destination_sign_in', 'sftp://alpha/file', 'sftp://locking/x'],
  ])(
    'a rejected password is tried once for all due transfers, and again after it was replaced: %s',
    async (phase, source, destination) => {
      const configure = (password: string) =>
        configureSftp(
          installation,
          'locking',
          { ...alpha, port: prying.port },
          { password, host_key_sha256: prying.hostKeySha256 },
        );
      const sent = () => prying.attempts.flatMap(({ password }) => password ?? []);
      await configure('old');
      prying.attempts.length = 0;
      const ids = await Promise.all(
        Array.from({ length: 20 }, () => submit(installation, source, destination)),
      );
      for (const id of ids) {
        const { facts } = await untilStatus(installation, id, 'failed');
        expect(facts.error).toMatchObject({
          code: 'auth_failed',
          message: 'Authentication failed',
          phase,
          attempts: 1,
        });
      }
      expect(await installation.sql`select from work.cleanups`).toHaveLength(0);
      expect(sent()).toEqual(['old']);

      await configure('new');
      await failing(source, destination);
      expect(sent()).toEqual(['old', 'new']);
    },
  );

  test('another host key than the pinned one gets no password', async () => {
    await pryingEndpoint('mismatch', PINNED_TO_ANOTHER);
    prying.attempts.length = 0;
    await failsForGood('sftp://mismatch/file', 'sftp://beta/x', {
      code: 'host_key_mismatch',
      message:
        `The server presents the host key ${prying.hostKeySha256}, expected ` +
        `${PINNED_TO_ANOTHER}`,
      phase: 'source_connect',
    });
    expect(prying.attempts).toEqual([]);
  });

  test('a host key gets no password if none is pinned', async () => {
    await pryingEndpoint('unpinned', null);
    prying.attempts.length = 0;
    await failsForGood('sftp://alpha/file', 'sftp://unpinned/x', {
      code: 'host_key_mismatch',
      message:
        `The server presents the host key ${prying.hostKeySha256}, and none has been accepted ` +
        'for this endpoint',
      phase: 'destination_connect',
    });
    expect(prying.attempts).toEqual([]);
  });

  test('a missing source fails the transfer', async () => {
    await failsForGood('sftp://alpha/missing', 'sftp://beta/x', {
      code: 'source_not_found',
      message: `${alpha.root}/missing: No such file`,
      phase: 'source_open',
    });
  });

  test('a folder as source fails the transfer', async () => {
    mkdirSync(join(alpha.root, 'folder'));
    const error = {
      code: 'source_not_found',
      message: `${alpha.root}/folder is a directory`,
      phase: 'source_open',
    };
    await failsForGood('sftp://alpha/folder', 'sftp://beta/x', error);
  });

  test('a read-only destination fails the transfer', async () => {
    await configureSftp(installation, 'read-only', readOnly);
    const { id, failed } = await failing('sftp://alpha/file', 'sftp://read-only/x');
    expect(failed.facts).toMatchObject({
      retry_count: 0,
      error: { code: 'permission_denied', phase: 'destination_open', attempts: 1 },
    });
    expect(failed.facts.error?.message).toContain('Permission denied');
    expect(await storyOf(installation, id)).toEqual(ONE_ATTEMPT);
  });

  test('a folder as destination fails the transfer', async () => {
    mkdirSync(join(beta.root, 'taken'));
    const { failed } = await failing('sftp://alpha/file', 'sftp://beta/taken');
    expect(failed.facts.error).toMatchObject({
      code: 'destination_exists',
      phase: 'destination_open',
      retryable: false,
    });
    expect(failed.facts.error?.message).toContain('is a folder: end the destination with a slash');
  });

  test('a file in place of a destination folder fails the transfer', async () => {
    writeFileSync(join(beta.root, 'no-folder'), '');
    const { failed } = await failing('sftp://alpha/file', 'sftp://beta/no-folder/x');
    expect(failed.facts.error).toMatchObject({
      code: 'permission_denied',
      phase: 'destination_open',
      retryable: false,
      attempts: 1,
    });
  });

  test('a host that does not answer fails the transfer after all retries', LONG, async () => {
    await configureSftp(installation, 'unreachable', { ...alpha, port: await freePort() });
    const { id, failed } = await failing('sftp://unreachable/file', 'sftp://beta/x');
    const error = { code: 'connection_failed', phase: 'source_connect', retryable: true };
    expect(failed.facts).toMatchObject({ retry_count: 2, error: { ...error, attempts: 3 } });
    expect(failed.facts.error?.message).toContain('connection refused');
    const again = ['queued: retry', 'in_progress'];
    expect(await storyOf(installation, id)).toEqual([
      'created',
      'queued: admitted',
      'in_progress',
      ...again,
      ...again,
      'failed',
    ]);

    const history = await historyOf(installation, id);
    const retries = history.flatMap(({ type, data }) =>
      type === 'transfer.queued' && data.reason === 'retry' ? [data] : [],
    );
    expect(retries).toMatchObject(
      [1, 2].map((attempt) => ({ attempt, error: { ...error, attempts: attempt } })),
    );
    expect(
      retries.map(
        ({ not_before, error }) => Date.parse(not_before) - Date.parse(error.occurred_at),
      ),
    ).toEqual(RETRY_DELAYS_MS);
    const starts = history.flatMap(({ type, data }) =>
      type === 'transfer.in_progress' ? [data.started_at] : [],
    );
    for (const [i, { not_before }] of retries.entries())
      expect((starts[i + 1] as string) >= not_before).toBe(true);
  });

  test('a source without an endpoint is never dialled', async () => {
    let dialled = 0;
    const port = await freePort();
    const listening = createServer(() => dialled++).listen(port, '127.0.0.1');
    await failsForGood(`sftp://127.0.0.1:${port}/file`, 'sftp://beta/x', {
      code: 'source_endpoint_not_configured',
      phase: 'prepare',
    });
    listening.close();
    expect(dialled).toBe(0);
  });

  test('an endpoint of other accounts counts as not configured', async () => {
    await configureSftp(installation, 'theirs', alpha, { accounts: ['acc_other'] });
    await failsForGood('sftp://theirs/file', 'sftp://beta/x', {
      code: 'source_endpoint_not_configured',
      phase: 'prepare',
    });
  });

  test('a destination whose endpoint was just removed fails the transfer', async () => {
    const endpointId = await configureSftp(installation, 'doomed', beta);
    await pauseEndpoint(installation.commands, endpointId, CAUSE);
    const id = await submit(installation, 'sftp://alpha/file', 'sftp://doomed/x');
    await removeEndpoint(
      { ...installation.commands, openTransfersOf: async () => [] },
      endpointId,
      CAUSE,
    );
    const { facts } = await untilStatus(installation, id, 'failed');
    expect(facts.error).toMatchObject({
      code: 'endpoint_removed',
      phase: 'prepare',
      retryable: false,
      attempts: 1,
    });
  });

  test('a source that changes during the read is moved by the next attempt', LONG, async () => {
    const file = join(alpha.root, 'growing');
    writeFileSync(file, randomBytes(20 << 20));
    const proxy = await startTcpProxy(alpha);
    proxy.throttle(20 << 20);
    await configureSftp(installation, 'slow', { ...alpha, port: proxy.port });
    const id = await submit(installation, 'sftp://slow/growing', 'sftp://beta/growing');
    await until('some of it is read', () => proxy.forwarded.down > 8 << 20);
    writeFileSync(file, 'more', { flag: 'a' });
    proxy.throttle(Number.POSITIVE_INFINITY);
    const done = await untilStatus(installation, id, ['completed', 'failed']);
    await proxy.close();
    expect(done).toMatchObject({
      status: 'completed',
      checksum_sha256: await sha256Of(file),
      facts: { retry_count: 1 },
    });
    const retry = (await historyOf(installation, id)).find(
      ({ type, data }) => type === 'transfer.queued' && data.reason === 'retry',
    );
    expect(retry?.data).toMatchObject({
      error: { code: 'source_changed', phase: 'verify', retryable: true },
    });
    expect(await sha256Of(join(beta.root, 'growing'))).toBe(await sha256Of(file));
    rmSync(join(beta.root, 'growing'));
  });

  test('a server that is down for a while gets the file by a retry', async () => {
    const server = await startSftpServer();
    writeFileSync(join(alpha.root, 'interrupted'), randomBytes(16 << 20));
    const proxy = await startTcpProxy(server);
    proxy.throttle(8 << 20);
    await configureSftp(installation, 'unstable', { ...server, port: proxy.port });
    const id = await submit(
      installation,
      'sftp://alpha/interrupted',
      'sftp://unstable/interrupted',
    );
    await until('some of it is written', () => proxy.forwarded.up > 4 << 20);
    await server.down();
    await untilStatus(installation, id, 'queued');
    await server.restart();
    proxy.throttle(Number.POSITIVE_INFINITY);

    const done = await untilStatus(installation, id, ['completed', 'failed']);
    expect(done).toMatchObject({
      status: 'completed',
      checksum_sha256: await sha256Of(join(server.root, 'interrupted')),
    });
    expect(done.facts.retry_count).toBeGreaterThan(0);
    expect(await sha256Of(join(alpha.root, 'interrupted'))).toBe(
      await sha256Of(join(server.root, 'interrupted')),
    );
    await untilCleanedUp(installation);
    expect(await filesBelow(server.root)).toEqual(['interrupted']);
    await proxy.close();
    await server.stop();
  });

  test('nothing is left behind at the destination', async () => {
    await untilCleanedUp(installation);
    expect(await filesBelow(beta.root)).toEqual(['no-folder']);
    expect(await filesBelow(readOnly.root)).toEqual([]);
  });
});
