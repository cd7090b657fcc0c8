import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { configureSftp, openTestInstallation, submit, type TestInstallation, untilStatus } from '../support/installation.ts';
import { type RunningRoles, startRoles } from '../support/roles.ts';
import { type SftpServer, startSftpServer } from '../support/sftp-server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { describeTransfers, historyOf, sha256Of, storyOf, until } from '../support/transfers.ts';

const MiB = 1 << 20;

await describeTransfers('a network that goes silent', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let source: TcpProxy;
  let destination: TcpProxy;
  let roles: RunningRoles;

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: '5s' }),
      startSftpServer(),
      startSftpServer(),
    ]);
    [source, destination] = await Promise.all([startTcpProxy(alpha), startTcpProxy(beta)]);
    roles = await startRoles(installation);
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', beta);
    await configureSftp(installation, 'silent-source', { ...alpha, port: source.port });
    await configureSftp(installation, 'silent-destination', { ...beta, port: destination.port });
    writeFileSync(join(alpha.root, 'file'), randomBytes(48 * MiB));
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([source?.close(), destination?.close()]);
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  test.each([
    ['read', 'sftp://silent-source/file', 'sftp://beta/from-silent', () => source],
    ['write', 'sftp://alpha/file', 'sftp://silent-destination/to-silent', () => destination],
  ])('is noticed after a minute, and a retry completes the file: %s', async (phase, from, to, proxyOf) => {
    const proxy = proxyOf();
    const sum = () => proxy.forwarded.up + proxy.forwarded.down;
    const before = sum();
    proxy.throttle(24 * MiB);
    const id = await submit(installation, from, to);
    await until('it moves', () => sum() - before > 8 * MiB);
    proxy.stall(true);
    await untilStatus(installation, id, 'queued', 120);
    proxy.stall(false);
    proxy.throttle(Number.POSITIVE_INFINITY);
    const sha256 = await sha256Of(join(alpha.root, 'file'));
    expect(await untilStatus(installation, id, ['completed', 'failed'], 60)).toMatchObject({
      status: 'completed',
      checksum_sha256: sha256,
    });
    expect(await sha256Of(join(beta.root, to.slice(to.lastIndexOf('/') + 1)))).toBe(sha256);
    expect(await storyOf(installation, id)).toEqual([
      'created',
      'queued: admitted',
      'in_progress',
      'queued: retry',
      'in_progress',
      'completed',
    ]);
    expect((await historyOf(installation, id))[3]?.data).toMatchObject({ error: { code: 'stalled', phase, retryable: true } });
  });
});
