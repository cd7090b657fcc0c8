import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type SpawnedService, spawnService } from '../support/service/roles.ts';
import { describeTransfers, sha256Of, storyOf, until } from '../support/service/transfers.ts';

const MiB = 1 << 20;

await describeTransfers('a service that vanishes with its leases and locks', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let proxy: TcpProxy;
  let services: SpawnedService[];

  beforeAll(async () => {
    [alpha, beta] = await Promise.all([startSftpServer(), startSftpServer()]);
    proxy = await startTcpProxy(beta);
    writeFileSync(join(alpha.root, 'file'), randomBytes(64 * MiB));
  });
  beforeEach(async () => {
    installation = await openTestInstallation();
    services = [await startAnother()];
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', { ...beta, port: proxy.port });
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.kill()));
    await installation?.close();
  });
  afterAll(async () => {
    await proxy?.close();
    await Promise.all([alpha?.stop(), beta?.stop()]);
  });

  const startAnother = () =>
    spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });

  test.each(['SIGKILL', 'SIGSTOP'] as const)(
    '%s: the standby process takes over without help',
    async (signal) => {
      const name = `after-${signal}`;
      const before = proxy.forwarded.up;
      proxy.throttle(8 * MiB);
      const id = await submit(installation, 'sftp://alpha/file', `sftp://beta/${name}`);
      await until('some of it is written', () => proxy.forwarded.up - before > 16 * MiB);
      // The rest must not arrive before the standby process has started.
      proxy.throttle(MiB / 8);
      const [first] = services as [SpawnedService];
      services.push(await startAnother());
      first.signal(signal);
      proxy.throttle(Number.POSITIVE_INFINITY);

      const done = await untilStatus(installation, id, ['completed', 'failed'], 120);
      expect(done).toMatchObject({
        status: 'completed',
        checksum_sha256: await sha256Of(join(beta.root, name)),
      });
      const story = [
        'created',
        'queued: admitted',
        'in_progress',
        'queued: mover_lost',
        'in_progress',
        'completed',
      ];
      expect(await storyOf(installation, id)).toEqual(story);
      if (signal === 'SIGKILL') return;

      first.signal('SIGCONT');
      const next = await submit(installation, 'sftp://alpha/file', `sftp://beta/${name}-next`);
      expect(await untilStatus(installation, next, ['completed', 'failed'], 60)).toMatchObject({
        status: 'completed',
      });
      expect(await first.stop()).toBe(0);
      expect(await sha256Of(join(beta.root, name))).toBe(await sha256Of(join(alpha.root, 'file')));
      expect(await storyOf(installation, id)).toEqual(story);
    },
  );
});
