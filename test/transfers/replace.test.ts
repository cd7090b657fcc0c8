import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { describeTransfers, filesBelow, sha256Of, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000 });

await describeTransfers(
  'a transfer that replaces a file on a server that does not rename over one',
  () => {
    let installation: TestInstallation;
    let source: SftpServer;
    let destination: SftpServer;
    let proxy: TcpProxy;
    let roles: RunningRoles;

    beforeAll(async () => {
      [installation, source, destination] = await Promise.all([
        openTestInstallation(),
        startSftpServer(),
        startSftpServer({ denied: ['posix-rename'] }),
      ]);
      proxy = await startTcpProxy(destination);
      await configureSftp(installation, 'source', source);
      await configureSftp(installation, 'destination', { ...destination, port: proxy.port });
      roles = await startRoles(installation);
    });
    afterAll(async () => {
      await roles?.stop();
      await proxy?.close();
      await Promise.all([installation?.close(), source?.stop(), destination?.stop()]);
    });

    test.each([
      ['before the newer one has its name', false],
      ['before the older one is removed', true],
    ])('survives a cut %s, and leaves only the newer file', async (title, renamed) => {
      const file = `cut off ${title}`;
      const path = join(destination.root, file);
      writeFileSync(join(source.root, file), 'newer');
      writeFileSync(path, 'older');
      const isSetAside = () => readdirSync(destination.root).some((name) => name.endsWith('.old'));
      const struck = proxy.cutWhen(() => isSetAside() && existsSync(path) === renamed, 'up');
      const id = await submit(
        installation,
        `sftp://source/${encodeURI(file)}`,
        `sftp://destination/${encodeURI(file)}`,
      );
      await struck;
      expect(await untilStatus(installation, id, ['completed', 'failed'])).toMatchObject({
        status: 'completed',
        verification: { atomic_replace: false, read_back: renamed },
        facts: { retry_count: 0 },
      });
      const left = async () =>
        (await filesBelow(destination.root)).filter((name) => name.includes(file));
      await until('nothing else is left', async () => (await left()).join() === file);
      expect(await sha256Of(path)).toBe(await sha256Of(join(source.root, file)));
    });
  },
);
