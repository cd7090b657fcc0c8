import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, readdir, readFile, readlink, symlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  type FtpsServer,
  startFtpsServer,
  whyNoFtpsServer,
} from '../../../support/file-servers/ftps/server.ts';
import { options, upload } from '../contract.ts';
import { endpointOn } from './ftps-endpoint.ts';

for (const kind of ['proftpd', 'vsftpd'] as const) {
  const whyNot = await whyNoFtpsServer(kind);
  const title = `a destination on ${kind} whose name is taken`;
  describe.skipIf(whyNot !== null)(whyNot === null ? title : `${title} (${whyNot})`, () => {
    let server: FtpsServer;
    let endpoint: FileEndpoint;
    beforeAll(async () => {
      server = await startFtpsServer({ kind, tls: 'explicit' });
      endpoint = endpointOn(server);
    });
    afterAll(async () => {
      await endpoint?.close();
      await server?.stop();
    });

    test('by a folder or a link to one is rejected before a byte is sent', async () => {
      const at = (name: string) => join(server.root, 'occupied', name);
      const remote = (name: string) => server.remotePath(join('occupied', name));
      await mkdir(at('folder'), { recursive: true });
      await symlink('folder', at('link'));
      for (const name of ['folder', 'link']) {
        await expect(endpoint.openDestination(remote(name), options(1))).rejects.toMatchObject({
          code: 'destination_exists',
          step: 'open',
          message: expect.stringContaining('is a folder: end the destination with a slash'),
        });
      }
      expect(await readdir(at(''))).toEqual(['folder', 'link']);
      expect(await readlink(at('link'))).toBe('folder');
      // The connection is still good.
      await upload(endpoint, remote('file'), Buffer.from('x'));
      await upload(endpoint, remote('file'), Buffer.from('y'));
      expect(await readFile(at('file'), 'utf8')).toBe('y');
    });

    test('by a pipe, socket or device is rejected before a byte is sent', async () => {
      const at = (name: string) => join(server.root, 'special', name);
      await mkdir(at(''));
      execFileSync('mkfifo', [at('pipe')]);
      const socket = createServer().listen(at('socket'));
      await once(socket, 'listening');
      for (const name of ['pipe', 'socket'])
        for (const overwrite of [true, false]) {
          const path = server.remotePath(join('special', name));
          const opening = options(1, { overwrite });
          await expect(endpoint.openDestination(path, opening)).rejects.toMatchObject({
            code: 'destination_exists',
            step: 'open',
            message: `${path} is a device, pipe or socket: choose another name`,
          });
        }
      expect(await readdir(at(''))).toEqual(['pipe', 'socket']);
      socket.close();
      // The name of a pipe fits this pattern, and the destination is free.
      const pattern = server.remotePath('special/[p]ipe');
      await upload(endpoint, pattern, Buffer.from('x'));
      await upload(endpoint, pattern, Buffer.from('y'));
      expect(await readFile(at('[p]ipe'), 'utf8')).toBe('y');
      expect((await lstat(at('pipe'))).isFIFO()).toBe(true);
    });

    test.skipIf(kind === 'vsftpd')('or too long is rejected before a byte is sent', async () => {
      for (const overwrite of [true, false]) {
        const opening = options(1, { overwrite });
        const path = server.remotePath(`long/${'x'.repeat(256)}`);
        await expect(endpoint.openDestination(path, opening)).rejects.toMatchObject({
          step: 'open',
          message: expect.stringMatching(/name too long/i),
        });
      }
    });
  });
}
