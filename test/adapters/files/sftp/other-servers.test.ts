import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ConnectionTimeouts } from '../../../../src/adapters/files/connection-timeouts.ts';
import {
  otherSftpEndpoint,
  startOtherSftpServer,
  whyNoOtherSftpServer,
} from '../../../support/file-servers/sftp/other-servers.ts';
import { startTcpProxy } from '../../../support/network/tcp-proxy.ts';
import { LONG, longUnless } from '../../../support/run/long.ts';
import { describeFileEndpoint, options, upload, whole, writeFrom } from '../contract.ts';

const MiB = 1 << 20;
const never = new AbortController().signal;

for (const kind of ['proftpd', 'rclone', 'rclone-stream', 'asyncssh'] as const) {
  const isRclone = kind.startsWith('rclone');
  const whyNot = await whyNoOtherSftpServer(kind);
  describeFileEndpoint(
    `SFTP on ${kind}`,
    whyNot,
    async () => {
      const server = await startOtherSftpServer(kind);
      const file = (name: string) => join(server.root, name);
      return {
        endpoint: otherSftpEndpoint(server),
        path: server.remotePath,
        async put(name, content) {
          await mkdir(dirname(file(name)), { recursive: true });
          await writeFile(file(name), content);
        },
        get: (name) => readFile(file(name)).catch(() => null),
        names: () => readdir(server.root, { recursive: true }),
        stop: server.stop,
      };
    },
    {
      partFiles: true,
      resumes: !isRclone,
      removesOpenFiles: !isRclone,
      ...longUnless(kind === 'proftpd'),
    },
  );

  describe.skipIf(whyNot)(whyNot === null ? kind : `${kind} (${whyNot})`, () => {
    test('a name that is too long is no fault of Waybill', async () => {
      const server = await startOtherSftpServer(kind);
      onTestFinished(server.stop);
      const endpoint = otherSftpEndpoint(server);
      onTestFinished(endpoint.close);
      const path = server.remotePath('x'.repeat(300));
      await expect(endpoint.openSource(path, never)).rejects.toMatchObject({
        code: 'source_not_found',
      });
      await expect(upload(endpoint, path, Buffer.from('1'))).rejects.toMatchObject({
        code: 'permission_denied',
      });
    });

    test('a big file over a slow line arrives whole', LONG, async () => {
      const server = await startOtherSftpServer(kind);
      onTestFinished(server.stop);
      const proxy = await startTcpProxy(server);
      onTestFinished(proxy.close);
      const endpoint = otherSftpEndpoint(server, proxy.port);
      onTestFinished(endpoint.close);
      proxy.delay(20);
      for (const name of ['first', 'second']) {
        const content = randomBytes(64 * MiB);
        const file = await endpoint.openDestination(
          server.remotePath(name),
          options(content.length),
        );
        await writeFrom(file, content);
        await file.commit(whole(content));
        await file.close();
        expect(content.equals(await readFile(join(server.root, name)))).toBe(true);
      }
    });
  });
}

const whyNoProftpd = await whyNoOtherSftpServer('proftpd');
test.skipIf(whyNoProftpd)(
  'the error names the part, if the server refuses such names',
  async () => {
    const server = await startOtherSftpServer('proftpd', 'PathDenyFilter "(^|/)\\."');
    onTestFinished(server.stop);
    const endpoint = otherSftpEndpoint(server);
    onTestFinished(endpoint.close);
    await expect(
      endpoint.openDestination(server.remotePath('x'), options(1)),
    ).rejects.toMatchObject({
      code: 'permission_denied',
      step: 'open',
      message: expect.stringMatching(/\/\.x\..*\.part: Permission denied.*until it is complete/),
    });
  },
);

describe.skipIf(whyNoProftpd)('a server that allows fewer connections than the endpoint', () => {
  async function full(timeouts: Partial<ConnectionTimeouts>) {
    const server = await startOtherSftpServer('proftpd', 'MaxClientsPerUser 1');
    onTestFinished(server.stop);
    const proxy = await startTcpProxy(server);
    onTestFinished(proxy.close);
    const other = otherSftpEndpoint(server);
    onTestFinished(other.close);
    const holding = await other.openDestination(server.remotePath('held'), options(1));
    const endpoint = otherSftpEndpoint(server, proxy.port, timeouts);
    onTestFinished(endpoint.close);
    const makeRoom = () => holding.close().then(other.close);
    return { server, proxy, endpoint, makeRoom };
  }

  test('is waited for if other processes have all connections', async () => {
    const { server, proxy, endpoint, makeRoom } = await full({ busyMs: 20 });
    const names = ['a', 'b', 'c'];
    const content = Buffer.from('content');
    const uploads = Promise.all(
      names.map((name) => upload(endpoint, server.remotePath(name), content)),
    );
    await vi.waitFor(() => expect(proxy.forwarded.down).toBeGreaterThan(0), 30_000);
    await vi.waitFor(() => expect(proxy.connections).toBe(0), 30_000);
    await makeRoom();
    await uploads;
    for (const name of names) expect(await readFile(join(server.root, name))).toEqual(content);
  });

  test('is reported as busy if it stays so', LONG, async () => {
    const { server, endpoint } = await full({ queueMs: 300, busyMs: 50 });
    await Promise.all(
      ['a', 'b'].map((name) =>
        expect(endpoint.openSource(server.remotePath(name), never)).rejects.toMatchObject({
          code: 'connection_failed',
          busy: true,
          message: expect.stringContaining('Maximum connections'),
        }),
      ),
    );
  });

  for (const limit of [
    'MaxClientsPerUser 1',
    'MaxClientsPerUser 2',
    'MaxClients 2',
    'MaxClientsPerHost 2',
  ])
    test(
      `receives more files at once: ${limit}`,
      longUnless(limit === 'MaxClientsPerUser 1'),
      async () => {
        const server = await startOtherSftpServer('proftpd', limit);
        onTestFinished(server.stop);
        const endpoint = otherSftpEndpoint(server);
        onTestFinished(endpoint.close);
        const content = randomBytes(9 * MiB);
        const names = ['a', 'b', 'c', 'd', 'e', 'f'];
        const files = await Promise.all(
          names.map((name) =>
            endpoint.openDestination(server.remotePath(name), options(content.length)),
          ),
        );
        await Promise.all(
          files.map(async (file) => {
            await writeFrom(file, content);
            await file.commit(whole(content));
            await file.close();
          }),
        );
        for (const name of names)
          expect(content.equals(await readFile(join(server.root, name)))).toBe(true);
        expect(await endpoint.connections()).toBeLessThanOrEqual(2);
      },
    );
});
