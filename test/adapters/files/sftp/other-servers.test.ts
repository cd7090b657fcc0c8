import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  otherSftpEndpoint,
  startOtherSftpServer,
  whyNoOtherSftpServer,
} from '../../../support/file-servers/sftp/other-servers.ts';
import { startTcpProxy } from '../../../support/network/tcp-proxy.ts';
import { longUnless } from '../../../support/run/long.ts';
import { describeFileEndpoint, options, whole, writeFrom } from '../contract.ts';

const MiB = 1 << 20;

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
    { partFiles: true, resumes: !isRclone, removesOpenFiles: !isRclone },
  );

  describe.skipIf(whyNot)(whyNot === null ? kind : `${kind} (${whyNot})`, () => {
    // Only this one truncates a file that is opened again.
    const once = longUnless(kind === 'rclone');
    test('a big file over a slow line arrives whole', once, async () => {
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
  test.each(['MaxClientsPerUser 1', 'MaxClientsPerUser 2', 'MaxClients 2', 'MaxClientsPerHost 2'])(
    'receives more files at once: %s',
    async (limit) => {
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
