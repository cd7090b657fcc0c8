import { randomBytes } from 'node:crypto';
import { readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { endpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServerOptions,
  startSftpServer,
  whyNoSftpServer,
} from '../../../support/file-servers/sftp/server.ts';
import { startTcpProxy } from '../../../support/network/tcp-proxy.ts';
import { abandon, options, whole, writeFrom } from '../contract.ts';

const whyNot = await whyNoSftpServer();
const asRoot = process.getuid?.() === 0;
const never = new AbortController().signal;
const KiB = 1 << 10;
const MTIME = 1_700_000_000;
const modifiedAt = String(MTIME);

/** One connection, as all small files of a mover share a few. */
async function serve(given: SftpServerOptions = {}) {
  const server = await startSftpServer(given);
  onTestFinished(server.stop);
  const proxy = await startTcpProxy(server);
  onTestFinished(proxy.close);
  const endpoint = endpointOn(server, { settings: { port: proxy.port }, maxConnections: 1 });
  onTestFinished(endpoint.close);
  return { server, proxy, endpoint, at: (name: string) => join(server.root, name) };
}

describe.skipIf(whyNot !== null)(
  whyNot === null ? 'small files over SFTP' : `small files over SFTP (${whyNot})`,
  () => {
    test('the bytes and all requests before the rename go out at once', async () => {
      const { server, proxy, endpoint, at } = await serve();
      const content = randomBytes(10 * KiB);
      const part = async () => {
        const name = (await readdir(server.root)).find((name) => name.includes('.part'));
        return name === undefined ? null : stat(at(name));
      };
      const isWhole = async () => (await part())?.size === content.length;
      const held = proxy.holdWhen(isWhole, 'down');
      const opening = endpoint.openDestination(
        at('file'),
        options(content.length, { content, modifiedAt }),
      );
      // From here on, no answer arrives.
      const release = await held;
      await vi.waitUntil(async () => (await part())?.mtimeMs === MTIME * 1_000);
      void release();
      const file = await opening;
      expect(file.resumedFrom).toBe(content.length);
      expect(await file.commit(whole(content))).toMatchObject({ size: content.length });
      await file.close();
      expect(await readFile(at('file'))).toEqual(content);
      expect((await stat(at('file'))).mtimeMs).toBe(MTIME * 1_000);
    });

    test('the time is set by the name if the server denies it by the handle', async () => {
      const { endpoint, at } = await serve({ denied: ['fsetstat'] });
      const content = Buffer.from('content');
      const file = await endpoint.openDestination(
        at('file'),
        options(content.length, { content, modifiedAt }),
      );
      expect(await file.commit(whole(content))).not.toHaveProperty('timeRefused');
      await file.close();
      expect((await stat(at('file'))).mtimeMs).toBe(MTIME * 1_000);
    });

    test('more files at once than the window of a connection has room for arrive whole', async () => {
      const { server, proxy, endpoint, at } = await serve();
      proxy.throttle(4 << 20);
      const contents = Array.from({ length: 24 }, () => randomBytes(256 * KiB));
      const resumedFrom = await Promise.all(
        contents.map(async (content, index) => {
          const given = options(content.length, { content, modifiedAt });
          const file = await endpoint.openDestination(at(`${index}`), given);
          await writeFrom(file, content);
          await file.commit(whole(content));
          await file.close();
          return file.resumedFrom;
        }),
      );
      // Those that found no room were written by the caller.
      expect(new Set(resumedFrom)).toEqual(new Set([0, 256 * KiB]));
      for (const [index, content] of contents.entries())
        expect(content.equals(await readFile(at(`${index}`)))).toBe(true);
      expect((await readdir(server.root)).length).toBe(contents.length);
    });

    test('a full disk and a broken connection are reported as those of a write', async () => {
      const { server, proxy, endpoint, at } = await serve(
        asRoot ? { smallDiskBytes: 100 * KiB } : {},
      );
      const content = randomBytes(200 * KiB);
      if (asRoot) {
        const path = join(server.smallDisk, 'file');
        const given = options(content.length, { content });
        const failure = { code: 'disk_full', step: 'transfer' };
        await expect(endpoint.openDestination(path, given)).rejects.toMatchObject(failure);
        const { transferId } = given;
        await endpoint.removeLeftovers(path, { transferId, resume: null, signal: never });
        expect(await endpoint.list(server.smallDisk, never)).toEqual([]);
      }
      proxy.cutAfter(100 * KiB, 'up');
      await expect(
        endpoint.openDestination(at('file'), options(content.length, { content })),
      ).rejects.toMatchObject({ code: 'connection_failed', step: 'transfer' });
    });

    test('an abort ends a file that is being sent, and its part can be removed', async () => {
      const { server, proxy, endpoint, at } = await serve();
      const content = randomBytes(10 * KiB);
      const control = new AbortController();
      const given = options(content.length, { content, signal: control.signal });
      const isOpen = async () =>
        (await readdir(server.root)).some((name) => name.includes('.part'));
      const held = proxy.holdWhen(isOpen, 'down');
      const opening = endpoint.openDestination(at('file'), given);
      const release = await held;
      control.abort();
      await expect(opening).rejects.toMatchObject({ name: 'FileError' });
      void release();
      await endpoint.removeLeftovers(at('file'), {
        transferId: given.transferId,
        resume: null,
        signal: never,
      });
      expect(await readdir(server.root)).toEqual([]);
    });

    test('a source that was removed or cut short during the read has changed', async () => {
      const { endpoint, at } = await serve();
      await writeFile(at('removed'), 'content');
      const removed = await endpoint.openSource(at('removed'), never);
      await rm(at('removed'));
      await expect(removed.readWhole?.(Buffer.alloc(7))).rejects.toMatchObject({
        code: 'source_changed',
        step: 'verify',
      });
      await removed.close();
      await writeFile(at('cut'), 'content');
      const cut = await endpoint.openSource(at('cut'), never);
      await truncate(at('cut'), 3);
      await expect(cut.readWhole?.(Buffer.alloc(7))).rejects.toMatchObject({
        code: 'source_changed',
        step: 'transfer',
      });
      await cut.close();
    });

    test('a failed commit leaves a part that the clean-up removes', async () => {
      const { server, endpoint, at } = await serve();
      const content = Buffer.from('content');
      const given = options(content.length, { content, overwrite: false });
      const file = await endpoint.openDestination(at('file'), given);
      await writeFile(at('file'), 'of another program');
      await expect(file.commit(whole(content))).rejects.toMatchObject({
        code: 'destination_exists',
      });
      await abandon(endpoint, file, at('file'), given);
      expect(await readdir(server.root)).toEqual(['file']);
      expect(await readFile(at('file'), 'utf8')).toBe('of another program');
    });
  },
);
