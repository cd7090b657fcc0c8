import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createFtpsEndpoint } from '../../../../src/adapters/files/ftps/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { startBehindProxy } from '../../../support/file-servers/behind-proxy.ts';
import {
  type FtpsServer,
  type FtpsServerOptions,
  startFtpsServer,
  whyNoFtpsServer,
} from '../../../support/file-servers/ftps/server.ts';
import { freePort } from '../../../support/network/free-port.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { LONG, longUnless } from '../../../support/run/long.ts';
import {
  abandon,
  download,
  opened,
  options,
  upload,
  whole,
  writeFrom,
  written,
} from '../contract.ts';
import { endpointOn, type Given } from './ftps-endpoint.ts';

const asRoot = process.getuid?.() === 0;
const never = new AbortController().signal;
const MiB = 1 << 20;
const CHUNK = 4 * MiB;

describe.for(['proftpd', 'vsftpd'] as const)('%s', async (kind) => {
  const whyNot = await whyNoFtpsServer(kind);

  const title = whyNot === null ? 'over FTPS' : `over FTPS (${whyNot})`;
  describe.skipIf(whyNot !== null)(title, longUnless(kind === 'proftpd'), () => {
    let server: FtpsServer;
    const open: FileEndpoint[] = [];
    const proxies: TcpProxy[] = [];
    const servers: FtpsServer[] = [];

    beforeAll(async () => {
      server = await startFtpsServer({
        kind,
        tls: 'explicit',
        ...(asRoot && { smallDiskBytes: 2 * MiB }),
      });
    });
    afterEach(async () => {
      for (const endpoint of open.splice(0)) await endpoint.close();
      for (const proxy of proxies.splice(0)) await proxy.close();
      for (const other of servers.splice(0)) await other.stop();
    });
    afterAll(() => server?.stop());

    function endpoint(given: Given = {}, on: FtpsServer = server): FileEndpoint {
      const made = endpointOn(on, given);
      open.push(made);
      return made;
    }

    async function otherServer(given: Partial<FtpsServerOptions>): Promise<FtpsServer> {
      const other = await startFtpsServer({ kind, tls: 'explicit', ...given });
      servers.push(other);
      return other;
    }

    async function proxied(given: Given = {}): Promise<{ proxy: TcpProxy; over: FileEndpoint }> {
      const proxy = await startTcpProxy(server);
      proxies.push(proxy);
      return { proxy, over: endpoint({ port: proxy.port, ...given }) };
    }

    const at = (name: string) => join(server.root, name);

    describe('signing in', () => {
      test('works under TLS 1.2', async (ctx) => {
        if (kind === 'vsftpd') return ctx.skip('this vsftpd cannot turn TLS 1.3 off');
        const old = await otherServer({ extraConfig: 'TLSProtocol TLSv1.2' });
        const content = randomBytes(MiB);
        await upload(endpoint({}, old), old.remotePath('file'), content);
        expect(content.equals(await download(endpoint({}, old), old.remotePath('file')))).toBe(
          true,
        );
      });

      test('fails with a wrong password', async () => {
        const other = await otherServer({});
        const wrong = endpoint({ password: 'canary-in-a-password' }, other);
        const error = await wrong.list(other.root, never).catch((thrown: Error) => thrown);
        expect(error).toMatchObject({
          name: 'FileError',
          code: 'auth_failed',
          step: 'sign_in',
          message: 'Authentication failed',
        });
        expect(
          `${(error as Error).stack} ${((error as Error).cause as Error).stack}`,
        ).not.toContain('canary');
      });

      test('uses no more connections than it needs', async () => {
        const other = await otherServer({});
        const warm = endpoint({}, other);
        for (const name of ['one', 'two', 'three'])
          await upload(warm, other.remotePath(name), Buffer.from(name));
        expect(await warm.connections()).toBe(1);
      });
    });

    describe('a certificate', () => {
      test.for([
        ['expired', 'has expired'],
        ['otherName', 'for another name'],
        ['untrusted', 'no known authority'],
      ] as const)(
        'that is %s is rejected before the password is sent',
        async ([certificate, reason]) => {
          const other = await otherServer({ certificate });
          const over = endpoint({}, other);
          await expect(over.list(other.root, never)).rejects.toMatchObject({
            code: 'tls_error',
            step: 'connect',
            message: expect.stringContaining(reason),
          });
          expect(await over.probe(never)).toMatchObject({
            fingerprint: expect.stringMatching(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/),
            trusted: false,
            reason: expect.stringContaining(reason),
          });
          expect(other.log()).not.toMatch(/USER|PASS/);
        },
      );

      test('that only its own authority signed is rejected', async () => {
        await expect(endpoint({ caPem: null }).list(server.root, never)).rejects.toMatchObject({
          code: 'tls_error',
        });
      });
    });

    test('is checked by a probe, which does not sign in', async () => {
      const other = await otherServer({});
      expect(await endpoint({}, other).probe(never)).toMatchObject({ trusted: true, reason: null });
      expect(other.log()).not.toMatch(/USER|PASS/);
    });

    describe('a server is unreachable', () => {
      test('at a closed port', async () => {
        const nobody = endpoint({ port: await freePort() });
        await expect(nobody.openSource('/x', never)).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'connect',
        });
        await expect(nobody.probe(never)).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'connect',
        });
      });

      test('if it accepts the connection and says nothing', async () => {
        const { proxy, over } = await proxied({ timeouts: { connectMs: 200 } });
        proxy.stall(true);
        await expect(over.openSource('/x', never)).rejects.toMatchObject({
          code: 'timeout',
          step: 'connect',
        });
        await expect(over.probe(never)).rejects.toMatchObject({ code: 'timeout', step: 'connect' });
      });

      test('if it expects plain text and gets TLS, or the reverse', async () => {
        const implicit = endpoint({ tls: 'implicit', timeouts: { connectMs: 1000 } });
        await expect(implicit.openSource('/x', never)).rejects.toMatchObject({
          code: 'tls_error',
          step: 'connect',
        });
      });

      test('once the signal aborts', async () => {
        const { proxy, over } = await proxied();
        proxy.stall(true);
        const control = new AbortController();
        const opening = over.openSource('/x', control.signal);
        const probing = over.probe(control.signal);
        control.abort();
        await expect(opening).rejects.toMatchObject({ name: 'FileError' });
        await expect(probing).rejects.toMatchObject({ name: 'FileError' });
      });

      test('if the connection is cut during the TLS handshake', async () => {
        const { proxy, over } = await proxied();
        proxy.cutAfter(100, 'down');
        await expect(over.list(server.root, never)).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'connect',
        });
        expect(await over.list(server.root, never)).toBeInstanceOf(Array);
      });

      test('if the connection is cut during the sign-in', async () => {
        const { proxy, over } = await proxied();
        await over.probe(never);
        await vi.waitFor(() => expect(proxy.connections).toBe(0), 30_000);
        // A probe does everything before the sign-in.
        proxy.cutAfter(proxy.forwarded.up, 'up');
        await expect(over.list(server.root, never)).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'sign_in',
        });
        expect(await over.list(server.root, never)).toBeInstanceOf(Array);
      });
    });

    describe('a source is rejected', () => {
      test('if it is a directory', async () => {
        await mkdir(at('a-directory'), { recursive: true });
        const message = `${at('a-directory')} is a directory`;
        await expect(endpoint().openSource(at('a-directory'), never)).rejects.toMatchObject({
          code: 'source_not_found',
          message,
        });
      });

      test('if it is a pipe, which would block the server', async () => {
        execFileSync('mkfifo', [at('pipe')]);
        await expect(endpoint().openSource(at('pipe'), never)).rejects.toMatchObject({
          code: 'source_not_found',
        });
      });

      test('if the user may not read it', async (ctx) => {
        if (asRoot)
          return ctx.skip(
            'the account of these servers is root under another name, which may read every file',
          );
        await writeFile(at('private'), 'x', { mode: 0 });
        const file = await endpoint().openSource(at('private'), never);
        await expect(file.read(0, new Uint8Array(1))).rejects.toMatchObject({
          code: 'permission_denied',
          step: 'open',
        });
        await file.close();
      });

      test('if it disappears before it is read', async () => {
        await writeFile(at('fleeting'), 'x');
        const file = await endpoint().openSource(at('fleeting'), never);
        execFileSync('rm', [at('fleeting')]);
        await expect(file.read(0, new Uint8Array(1))).rejects.toMatchObject({
          name: 'FileError',
          step: 'open',
        });
        await expect(file.stat()).rejects.toMatchObject({ code: 'source_changed', step: 'verify' });
        await file.close();
      });
    });

    describe('a destination is rejected', () => {
      test('on a read-only server', async () => {
        const readOnly = await otherServer({ readOnly: true });
        const refused = { code: 'permission_denied', step: 'open' };
        await expect(
          upload(endpoint({}, readOnly), readOnly.remotePath('new'), Buffer.from('x')),
        ).rejects.toMatchObject(refused);
      });

      test('if the server denies hidden names, and the error names the part', async () => {
        const extraConfig = kind === 'proftpd' ? 'PathDenyFilter "(^|/)\\."' : 'deny_file={.*}';
        const other = await otherServer({ extraConfig });
        const opening = endpoint({}, other).openDestination(other.remotePath('x'), options(1));
        await expect(opening).rejects.toMatchObject({
          code: 'permission_denied',
          step: 'open',
          message: expect.stringMatching(/\/\.x\..*\.part: 550 .*until it is complete/),
        });
      });

      test('if its path leads through a file', async () => {
        await writeFile(at('file-in-the-way'), 'x');
        await expect(
          endpoint().openDestination(at('file-in-the-way/below/name'), options(1)),
        ).rejects.toMatchObject({
          code: 'permission_denied',
        });
      });

      test('if a folder has its name', async () => {
        await mkdir(at('folder-in-the-way'), { recursive: true });
        await expect(
          upload(endpoint(), at('folder-in-the-way'), Buffer.from('x')),
        ).rejects.toMatchObject({ code: 'destination_exists' });
      });

      test('on a full disk', async (ctx) => {
        if (!asRoot) return ctx.skip('only root can mount a small disk');
        const content = randomBytes(8 * MiB);
        await expect(
          upload(endpoint(), join(server.smallDisk, 'big'), content),
        ).rejects.toMatchObject({ code: 'disk_full' });
        expect(await endpoint().list(server.smallDisk, never)).toEqual([]);
      });

      // ProFTPD says `Input/output error` then.
      test('on a disk that takes only a part of a block', async (ctx) => {
        if (!asRoot) return ctx.skip('only root can mount a small disk');
        const at = (name: string) => join(server.smallDisk, name);
        await upload(endpoint(), at('page'), randomBytes(1));
        await expect(upload(endpoint(), at('big'), randomBytes(8 * MiB))).rejects.toMatchObject({
          code: 'disk_full',
        });
        await endpoint().remove(at('page'), never);
      });

      test('if its path has a line break, and nothing of it reaches the server', async () => {
        const path = `${at('x')}\r\nDELE ${at('canary')}`;
        await writeFile(at('canary'), 'x');
        await expect(endpoint().openDestination(path, options(1))).rejects.toMatchObject({
          name: 'FileError',
        });
        await expect(endpoint().openSource(path, never)).rejects.toMatchObject({
          name: 'FileError',
        });
        expect(await readFile(at('canary'), 'utf8')).toBe('x');
      });
    });

    test('a name with a line break passes for no other name', async () => {
      const folder = at('breaks');
      await mkdir(folder);
      const names = ['a', 'a\n', 'a\nb', 'a\rb', 'a\u2028b', 'z\nline'];
      for (const name of names) await writeFile(join(folder, name), 'x');
      const listed = await endpoint().list(folder, never);
      expect(listed.map(({ name }) => name).toSorted()).toEqual(
        ['a', 'a\ufffd', 'a\ufffdb', 'a\ufffdb', 'a\ufffdb', 'z\ufffdline'].toSorted(),
      );
      await rm(folder, { recursive: true });
    });

    test('replacement is reported as atomic, as a rename is on this server', async () => {
      await upload(endpoint(), at('replaced'), Buffer.from('old'));
      expect(await upload(endpoint(), at('replaced'), Buffer.from('new'))).toMatchObject({
        atomicReplace: true,
      });
    });

    test('a replaced file gives its permissions to the new one, if the server shows them', async () => {
      for (const [before, after] of [
        [0o664, 0o664],
        [0o600, 0o600],
        [0o440, 0o640],
      ] as const) {
        await writeFile(at('permitted'), 'old');
        await chmod(at('permitted'), before);
        await upload(endpoint(), at('permitted'), Buffer.from('new'));
        const { mode } = await stat(at('permitted'));
        expect(mode & 0o777).toBe(kind === 'proftpd' ? after : 0o644);
      }
    });

    test('reads at any offset work, over as few data connections as possible', async () => {
      const content = randomBytes(3 * MiB);
      await writeFile(at('ranges'), content);
      const file = await endpoint({ maxConnections: 1 }).openSource(at('ranges'), never);
      for (const [offset, length] of [
        [MiB, 1000],
        [MiB + 1000, 70_000],
        [0, 10],
        [3 * MiB - 5, 5],
      ] as const) {
        const target = new Uint8Array(new SharedArrayBuffer(length));
        await file.read(offset, target);
        expect(content.subarray(offset, offset + length).equals(target)).toBe(true);
      }
      expect(await file.stat()).toEqual(file.identity);
      await file.close();
    });

    test('without REST, a read starts over and an upload starts over', async () => {
      const config =
        kind === 'proftpd' ? 'AllowRetrieveRestart off\nAllowStoreRestart off' : 'cmds_denied=REST';
      const other = await otherServer({ extraConfig: config });
      const over = endpoint({}, other);
      const content = randomBytes(CHUNK + 9);
      await writeFile(join(other.root, 'from'), content);
      const file = await over.openSource(other.remotePath('from'), never);
      const target = Buffer.alloc(9);
      await file.read(CHUNK, target);
      expect(target.equals(content.subarray(CHUNK))).toBe(true);
      await file.close();
      const first = await over.openDestination(other.remotePath('to'), options(content.length));
      await first.write(0, content.subarray(0, CHUNK));
      await first.close();
      const resume = await first.resumePoint(CHUNK);
      const second = await over.openDestination(
        other.remotePath('to'),
        options(content.length, { resume }),
      );
      expect(second.resumedFrom).toBe(0);
      await writeFrom(second, content);
      await second.commit(whole(content));
      await second.close();
      expect(content.equals(await readFile(join(other.root, 'to')))).toBe(true);
    });

    describe('when the server goes down', () => {
      test('a read fails, and the next one works', LONG, async () => {
        const other = await otherServer({});
        const content = randomBytes(64 * MiB);
        await writeFile(join(other.root, 'file'), content);
        const over = endpoint({}, other);
        const file = await over.openSource(other.remotePath('file'), never);
        await file.read(0, Buffer.alloc(MiB));
        await other.down();
        await expect(file.read(MiB, Buffer.alloc(63 * MiB))).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'transfer',
        });
        await file.close();
        expect(await over.connections()).toBe(0);
        await other.restart();
        expect(content.equals(await download(over, other.remotePath('file')))).toBe(true);
      });

      test('an upload resumes from the bytes that the server certainly has', LONG, async () => {
        const other = await otherServer({});
        const content = randomBytes(5 * CHUNK + 7);
        const over = endpoint({}, other);
        const first = await over.openDestination(other.remotePath('file'), options(content.length));
        for (let chunk = 0; chunk < 3; chunk++)
          await first.write(chunk * CHUNK, content.subarray(chunk * CHUNK, (chunk + 1) * CHUNK));
        await other.down();
        await first.close();
        const resume = await first.resumePoint(3 * CHUNK);
        // Bytes that the system accepted may be lost: here all except a little more than one chunk.
        const { part } = resume.state as { part: string };
        await truncate(join(other.root, part), CHUNK + 100);
        await other.restart();
        const second = await over.openDestination(
          other.remotePath('file'),
          options(content.length, { resume }),
        );
        expect(second.resumedFrom).toBe(CHUNK);
        await writeFrom(second, content);
        await second.commit(whole(content));
        await second.close();
        expect(content.equals(await readFile(join(other.root, 'file')))).toBe(true);
        expect(await readdir(other.root)).toEqual(['file']);
      });
    });

    describe('when the control connection is cut', () => {
      test('a read fails', async () => {
        await writeFile(at('cut-source'), randomBytes(32 * MiB));
        const { proxy, over } = await proxied();
        const file = await over.openSource(at('cut-source'), never);
        await file.read(0, Buffer.alloc(MiB));
        proxy.cut();
        await expect(readRest(file.read)).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'transfer',
        });
        await file.close();
        expect((await download(over, at('cut-source'))).length).toBe(32 * MiB);
      });

      test('earlier writes can be removed', async () => {
        const { proxy, over } = await proxied();
        const given = options(MiB);
        const file = await over.openDestination(at('cut-and-removed/file'), given);
        await file.write(0, randomBytes(MiB));
        proxy.cut();
        await abandon(over, file, at('cut-and-removed/file'), given);
        expect(await readdir(at('cut-and-removed'))).toEqual([]);
      });

      test('before the commit, the part stays for a successor', async () => {
        const content = randomBytes(1000);
        const { proxy, over } = await proxied();
        const first = await over.openDestination(at('cut-commit'), options(content.length));
        await first.write(0, content);
        proxy.stall(true);
        const committing = first.commit(whole(content));
        // The server has all bytes, but its confirmation does not arrive.
        await vi.waitFor(
          async () =>
            expect(
              (await readdir(server.root)).some((name) => name.startsWith('.cut-commit')),
            ).toBe(true),
          30_000,
        );
        const { state } = await first.resumePoint(content.length);
        const { part } = state as { part: string };
        await vi.waitFor(async () => expect(await readFile(at(part))).toEqual(content), 30_000);
        proxy.cut();
        await expect(committing).rejects.toMatchObject({
          code: 'connection_failed',
          step: 'commit',
        });
        await first.close();
        proxy.stall(false);
        const resume = await first.resumePoint(content.length);
        const second = await over.openDestination(
          at('cut-commit'),
          options(content.length, { resume }),
        );
        expect(second.resumedFrom).toBe(content.length);
        await second.commit(whole(content));
        await second.close();
        expect(await readFile(at('cut-commit'))).toEqual(content);
      });
    });

    test('a silent data connection is a stall, even with all bytes sent', LONG, async (ctx) => {
      if (kind !== 'proftpd')
        return ctx.skip('only proftpd listens where its data connections can have a proxy');
      const behind = await startBehindProxy('ftps');
      onTestFinished(behind.stop);
      await behind.put('file', randomBytes(8 * MiB));
      const { host, port, base_path, ca_pem, username, password } = behind.request as Record<
        'host' | 'base_path' | 'ca_pem' | 'username' | 'password',
        string
      > & { port: number };
      const settings = {
        protocol: 'ftps' as const,
        host,
        port,
        base_path,
        username,
        tls: 'explicit' as const,
        ca_pem,
      };
      const over = createFtpsEndpoint({
        settings,
        credentials: { password },
        maxConnections: 2,
        timeouts: { stallMs: 500 },
      });
      const file = await opened(over, join(base_path, 'file'));
      behind.proxy.throttle(4 * MiB);
      const before = behind.proxy.forwarded.down;
      const reading = file.read(0, Buffer.alloc(8 * MiB));
      void vi
        .waitFor(() => expect(behind.proxy.forwarded.down - before).toBeGreaterThan(MiB), 10_000)
        .then(() => behind.proxy.stall(true))
        .catch(() => undefined);
      await expect(reading).rejects.toMatchObject({ code: 'stalled', step: 'transfer' });
      await file.close();
      await over.close();
    });

    test('a closed source waits for no connection', async () => {
      const over = endpoint({ maxConnections: 1 });
      await upload(over, at('waited-for'), randomBytes(MiB));
      const file = await over.openSource(at('waited-for'), never);
      const holder = await over.openDestination(at('holder'), options(1));
      const reading = file.read(0, Buffer.alloc(MiB));
      await Promise.all([
        expect(reading).rejects.toMatchObject({ code: 'connection_failed' }),
        file.close(),
      ]);
      await holder.close();
    });

    test('a control connection that goes silent is a stall', async () => {
      const { proxy, over } = await proxied({ timeouts: { stallMs: 200 } });
      await writeFile(at('stalling'), randomBytes(MiB));
      const file = await opened(over, at('stalling'));
      proxy.stall(true);
      await expect(file.read(0, new Uint8Array(MiB))).rejects.toMatchObject({ code: 'stalled' });
      await file.close();
    });

    test('a server may take longer to confirm a large file, but not a small one', async () => {
      // Five times as long for a large file. A pause of this process for two seconds fits in.
      const { proxy, over } = await proxied({ timeouts: { stallMs: 600 } });
      const commit = async (name: string, content: Buffer) => {
        const file = await written(over, at(name), content);
        proxy.stall(true);
        setTimeout(() => proxy.stall(false), 900);
        const committed = await file.commit(whole(content)).catch((error) => error.code);
        await file.close();
        return committed;
      };
      expect(await commit('confirmed', randomBytes(CHUNK + 1))).toMatchObject({ size: CHUNK + 1 });
      expect(await commit('unconfirmed', randomBytes(10))).toBe('stalled');
    });

    test('a server may take longer for a rename than for other commands', async () => {
      // Five times as long, as above.
      const { proxy, over } = await proxied({ timeouts: { stallMs: 600 } });
      const content = randomBytes(CHUNK + 1);
      const file = await written(over, at('slow-rename'), content);
      const holding = proxy.holdWhen(() => existsSync(join(server.root, 'slow-rename')), 'down');
      const committing = file.commit(whole(content));
      const release = await holding;
      setTimeout(release, 900);
      expect(await committing).toMatchObject({ size: content.length });
      await file.close();
    });

    test(
      'a server that greets no new connection may take no longer for a rename',
      LONG,
      async () => {
        const { proxy, over } = await proxied({ timeouts: { stallMs: 2_000, connectMs: 5_000 } });
        const content = randomBytes(CHUNK + 1);
        const file = await over.openDestination(at('frozen'), options(content.length));
        await writeFrom(file, content);
        const holding = proxy.holdWhen(() => existsSync(join(server.root, 'frozen')), 'down');
        const committing = file.commit(whole(content));
        committing.catch(() => undefined);
        const release = await holding;
        proxy.stall(true);
        await expect(committing).rejects.toMatchObject({
          code: 'stalled',
          message: expect.stringMatching(/nothing for 2 s, and nothing on a new connection/),
        });
        proxy.stall(false);
        void release();
        await file.close();
      },
    );

    describe('connections', () => {
      test('never exceed the limit', async () => {
        const { proxy, over } = await proxied({ maxConnections: 2 });
        const names = Array.from({ length: 20 }, (_, index) => at(`small/${index}`));
        await Promise.all(names.map((name) => upload(over, name, Buffer.from(name))));
        const contents = await Promise.all(names.map((name) => download(over, name)));
        expect(contents.map(String)).toEqual(names);
        expect(proxy.connections).toBeLessThanOrEqual(2);
      });

      test.each([1, 2])('are shared in turn if the server accepts only %i', async (limit) => {
        const extraConfig = `${kind === 'proftpd' ? 'MaxClientsPerUser ' : 'max_per_ip='}${limit}`;
        const busy = await otherServer({ extraConfig });
        const over = endpoint({}, busy);
        const names = Array.from({ length: 12 }, (_, index) => `turn-${index}`);
        await Promise.all(
          names.map((name) => upload(over, busy.remotePath(name), Buffer.from(name))),
        );
        for (const name of names) expect(await readFile(join(busy.root, name), 'utf8')).toBe(name);
        expect(await over.connections()).toBeLessThanOrEqual(limit);
      });

      test('are tried once more, one alone, if the server refused all at once', async () => {
        const extraConfig = kind === 'proftpd' ? 'MaxClientsPerUser 1' : 'max_per_ip=1';
        const busy = await otherServer({ extraConfig });
        const other = endpoint({}, busy);
        await other.list(busy.remotePath(''), never);
        const proxy = await startTcpProxy(busy);
        proxies.push(proxy);
        const over = endpoint({ port: proxy.port, maxConnections: 3 }, busy);
        const names = ['first', 'second', 'third'];
        proxy.stall(true);
        const uploads = Promise.all(
          names.map((name) => upload(over, busy.remotePath(name), Buffer.from(name))),
        );
        await vi.waitFor(() => expect(proxy.connections).toBe(3), 30_000);
        proxy.stall(false);
        await vi.waitFor(() => expect(proxy.connections).toBe(0), 30_000);
        proxy.stall(true);
        await other.close();
        await vi.waitFor(() => expect(busy.sessions).toBe(0), 30_000);
        proxy.stall(false);
        await uploads;
        for (const name of names) expect(await readFile(join(busy.root, name), 'utf8')).toBe(name);
      });

      test('are waited for if other processes have all that the server accepts', LONG, async () => {
        const extraConfig = kind === 'proftpd' ? 'MaxClientsPerUser 1' : 'max_per_ip=1';
        const full = await otherServer({ extraConfig });
        const other = endpoint({}, full);
        const holding = await other.openDestination(full.remotePath('held'), options(1));
        const proxy = await startTcpProxy(full);
        proxies.push(proxy);
        const over = endpoint({ port: proxy.port, timeouts: { busyMs: 20 } }, full);
        const uploading = upload(over, full.remotePath('file'), Buffer.from('content'));
        await vi.waitFor(() => expect(proxy.forwarded.down).toBeGreaterThan(0), 30_000);
        await vi.waitFor(() => expect(proxy.connections).toBe(0), 30_000);
        await holding.close();
        await other.close();
        await uploading;
        expect(await readFile(join(full.root, 'file'), 'utf8')).toBe('content');
      });

      test('are reported as refused if the server stays busy', LONG, async () => {
        const extraConfig = kind === 'proftpd' ? 'MaxClientsPerUser 1' : 'max_clients=1';
        const full = await otherServer({ extraConfig });
        const other = endpoint({}, full);
        const holding = await other.openDestination(full.remotePath('held'), options(1));
        const over = endpoint({ timeouts: { queueMs: 300, busyMs: 50 } }, full);
        for (let time = 1; time <= 2; time++)
          await expect(over.openSource(full.remotePath('file'), never)).rejects.toMatchObject({
            code: 'connection_failed',
            busy: true,
            message: expect.stringMatching(/maximum number|too many/),
          });
        await holding.close();
      });

      test('are reported as exhausted while all stay in use', async () => {
        const over = endpoint({ maxConnections: 1, timeouts: { queueMs: 50 } });
        const file = await over.openDestination(at('holding'), options(1));
        await expect(over.list(server.root, never)).rejects.toMatchObject({
          code: 'timeout',
          step: 'open',
          busy: true,
        });
        await file.close();
        expect(await over.list(server.root, never)).toBeInstanceOf(Array);
      });

      test('close after they were idle for too long', async () => {
        const over = endpoint({ timeouts: { idleMs: 20 } });
        await over.list(server.root, never);
        await vi.waitFor(async () => expect(await over.connections()).toBe(0), 30_000);
      });

      test('are reused only if they still answer', async () => {
        const { proxy, over } = await proxied({ timeouts: { trustMs: 0, connectMs: 2_000 } });
        await over.list(server.root, never);
        proxy.stall(true);
        const listing = over.list(server.root, never);
        await vi.waitFor(async () => expect(await over.connections()).toBe(0), 30_000);
        proxy.stall(false);
        expect(await listing).toBeInstanceOf(Array);
      });

      test('stay open until the endpoint is closed', async () => {
        const over = endpoint();
        const file = await over.openDestination(at('closed'), options(MiB));
        await over.close();
        await expect(file.write(0, randomBytes(MiB))).rejects.toMatchObject({
          code: 'connection_failed',
        });
        await file.close();
        expect(await over.connections()).toBe(0);
        await expect(over.list(server.root, never)).rejects.toMatchObject({
          code: 'connection_failed',
        });
      });
    });

    async function readRest(
      read: (offset: number, target: Uint8Array) => Promise<void>,
    ): Promise<void> {
      for (let offset = MiB; offset < 32 * MiB; offset += MiB)
        await read(offset, Buffer.alloc(MiB));
    }
  });
});
