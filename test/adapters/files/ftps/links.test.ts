import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, lstat, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  type FtpsServer,
  startFtpsServer,
  whyNoFtpsServer,
} from '../../../support/file-servers/ftps/server.ts';
import { download, upload } from '../contract.ts';
import { endpointOn } from './ftps-endpoint.ts';

for (const kind of ['proftpd', 'vsftpd'] as const) {
  const whyNot = await whyNoFtpsServer(kind);
  const title = `a link on ${kind}`;
  describe.skipIf(whyNot !== null)(whyNot === null ? title : `${title} (${whyNot})`, () => {
    let server: FtpsServer;
    let endpoint: FileEndpoint;
    const at = (name: string) => join(server.root, name);
    beforeAll(async () => {
      server = await startFtpsServer({ kind, tls: 'explicit' });
      endpoint = endpointOn(server);
    });
    afterAll(async () => {
      await endpoint?.close();
      await server?.stop();
    });

    test.each([1, 5_000])('to a file of %i bytes is read as that file', async (bytes) => {
      const content = randomBytes(bytes);
      await writeFile(at(`file-${bytes}`), content);
      await symlink(`file-${bytes}`, at(`link-${bytes}`));
      expect(await download(endpoint, server.remotePath(`link-${bytes}`))).toEqual(content);
    });

    // ProFTPD sends no byte of such a file.
    const sendsMore = kind === 'vsftpd' && existsSync('/proc/version');
    test.skipIf(!sendsMore)('to a file with bytes that is called empty, fails', async () => {
      await symlink('/proc/version', at('generated'));
      const path = server.remotePath('generated');
      const file = await endpoint.openSource(path, new AbortController().signal);
      expect(file.identity.size).toBe(0);
      await expect(file.stat()).rejects.toMatchObject({
        code: 'size_unknown',
        message: `${path}: the server reports 0 bytes and sends more`,
      });
      await file.close();
    });

    test('is replaced by a file that not everybody may write', async () => {
      await writeFile(at('target'), 'before it');
      await symlink('target', at('replaced'));
      await upload(endpoint, server.remotePath('replaced'), Buffer.from('after'));
      const { mode } = await lstat(at('replaced'));
      expect((mode & 0o777).toString(8)).toBe('644');
      expect(await readFile(at('target'), 'utf8')).toBe('before it');
      expect(await readFile(at('replaced'), 'utf8')).toBe('after');
    });

    test('does not look like a program, which keeps its permissions', async () => {
      await writeFile(at('program'), 'before');
      await chmod(at('program'), 0o777);
      await upload(endpoint, server.remotePath('program'), Buffer.from('after'));
      const { mode } = await lstat(at('program'));
      expect((mode & 0o777).toString(8)).toBe(kind === 'proftpd' ? '777' : '644');
    });
  });
}
