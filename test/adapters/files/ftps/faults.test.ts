import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createFtpsEndpoint } from '../../../../src/adapters/files/ftps/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { startBehindProxy } from '../../../support/behind-proxy.ts';
import { freePort } from '../../../support/free-port.ts';
import { type FtpsServer, type FtpsServerOptions, startFtpsServer, whyNoFtpsServer } from '../../../support/ftps-server.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { abandon, download, options, upload, whole, writeFrom } from '../contract.ts';
import { endpointOn, type Given } from './ftps-endpoint.ts';

const asRoot = process.getuid?.() === 0;
const never = new AbortController().signal;
const MiB = 1 << 20;
const CHUNK = 4 * MiB;

describe.for(['proftpd', 'vsftpd'] as const)('%s', async (kind) => {
  const whyNot = await whyNoFtpsServer(kind);

  describe.skipIf(whyNot !== null)(whyNot === null ? 'over FTPS' : `over FTPS (${whyNot})`, () => {
    let server: FtpsServer;
    const open: FileEndpoint[] = [];
    const proxies: TcpProxy[] = [];
    const servers: FtpsServer[] = [];

    beforeAll(async () => {
      server = await startFtpsServer({ kind, tls: 'explicit', ...(asRoot && { smallDiskBytes: 2 * MiB }) });
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

    describe('signs in', () => {
      test('under TLS 1.2 too', async (ctx) => {
        if (kind === 'vsftpd') return ctx.skip('this vsftpd has no setting to keep it from TLS 1.3');
        const old = await otherServer({ extraConfig: 'TLSProtocol TLSv1.2' });
        const content = randomBytes(MiB);
        await upload(endpoint({}, old), old.remotePath('file'), content);
        expect(content.equals(await download(endpoint({}, old), old.remotePath('file')))).toBe(true);
      });

      test('not with a wrong password', async () => {
        const other = await otherServer({});
        const wrong = endpoint({ password: 'canary-in-a-password' }, other);
        const error = await wrong.list(other.root, never).catch((thrown: Error) => thrown);
        expect(error).toMatchObject({ name: 'FileError', code: 'auth_failed', step: 'sign_in', message: 'Authentication failed' });
        expect(`${(error as Error).stack} ${((error as Error).cause as Error).stack}`).not.toContain('canary');
      });

      test('with no more connections than it needs', async () => {
        const other = await otherServer({});
        const warm = endpoint({}, other);
        for (const name of ['one', 'two', 'three']) await upload(warm, other.remotePath(name), Buffer.from(name));
        expect(await warm.connections()).toBe(1);
      });
    });

    describe('refuses a certificate', () => {
      test.for([
        ['expired', 'has expired'],
        ['otherName', 'for another name'],
        ['untrusted', 'no known authority'],
      ] as const)('that is %s, before the password is sent', async ([certificate, reason]) => {
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
      });

      test('that only an authority of its own has signed', async () => {
        await expect(endpoint({ caPem: null }).list(server.root, never)).rejects.toMatchObject({ code: 'tls_error' });
      });
    });

    test('a probe does not sign in', async () => {
      const other = await otherServer({});
      expect(await endpoint({}, other).probe(never)).toMatchObject({ trusted: true, reason: null });
      expect(other.log()).not.toMatch(/USER|PASS/);
    });

    describe('cannot reach the server', () => {
      test('where nobody listens', async () => {
        const nobody = endpoint({ port: await freePort() });
        await expect(nobody.openSource('/x', never)).rejects.toMatchObject({ code: 'connection_failed', step: 'connect' });
        await expect(nobody.probe(never)).rejects.toMatchObject({ code: 'connection_failed', step: 'connect' });
      });

      test('that takes the connection and says nothing', async () => {
        const { proxy, over } = await proxied({ timeouts: { connectMs: 200 } });
        proxy.stall(true);
        await expect(over.openSource('/x', never)).rejects.toMatchObject({ code: 'timeout', step: 'connect' });
        await expect(over.probe(never)).rejects.toMatchObject({ code: 'timeout', step: 'connect' });
      });

      test('that speaks TLS where plain text is expected, or the other way round', async () => {
        const implicit = endpoint({ tls: 'implicit', timeouts: { connectMs: 1000 } });
        await expect(implicit.openSource('/x', never)).rejects.toMatchObject({ code: 'tls_error', step: 'connect' });
      });

      test('and gives up waiting when the signal says so', async () => {
        const { proxy, over } = await proxied();
        proxy.stall(true);
        const control = new AbortController();
        const opening = over.openSource('/x', control.signal);
        const probing = over.probe(control.signal);
        control.abort();
        await expect(opening).rejects.toMatchObject({ name: 'FileError' });
        await expect(probing).rejects.toMatchObject({ name: 'FileError' });
      });

      test('cut while TLS begins', async () => {
        const { proxy, over } = await proxied();
        proxy.cutAfter(100, 'down');
        await expect(over.list(server.root, never)).rejects.toMatchObject({ code: 'connection_failed', step: 'connect' });
        expect(await over.list(server.root, never)).toBeInstanceOf(Array);
      });

      test('cut at the sign-in', async () => {
        const { proxy, over } = await proxied();
        await over.probe(never);
        await vi.waitFor(() => expect(proxy.connections).toBe(0));
        // A probe does all that comes before.
        proxy.cutAfter(proxy.forwarded.up, 'up');
        await expect(over.list(server.root, never)).rejects.toMatchObject({ code: 'connection_failed', step: 'sign_in' });
        expect(await over.list(server.root, never)).toBeInstanceOf(Array);
      });
    });

    describe('refuses as a source', () => {
      test('a directory', async () => {
        await mkdir(at('a-directory'), { recursive: true });
        const message = `${at('a-directory')} is a directory`;
        await expect(endpoint().openSource(at('a-directory'), never)).rejects.toMatchObject({ code: 'source_not_found', message });
      });

      test('a pipe, which would hold the server up', async () => {
        execFileSync('mkfifo', [at('pipe')]);
        await expect(endpoint().openSource(at('pipe'), never)).rejects.toMatchObject({ code: 'source_not_found' });
      });

      test('a file that the user may not read', async (ctx) => {
        if (asRoot) return ctx.skip('the account of these servers is root under another name, and may read all');
        await writeFile(at('private'), 'x', { mode: 0 });
        const file = await endpoint().openSource(at('private'), never);
        await expect(file.read(0, new Uint8Array(1))).rejects.toMatchObject({ code: 'permission_denied', step: 'open' });
        await file.close();
      });

      test('what is there no more when it is read', async () => {
        await writeFile(at('fleeting'), 'x');
        const file = await endpoint().openSource(at('fleeting'), never);
        execFileSync('rm', [at('fleeting')]);
        await expect(file.read(0, new Uint8Array(1))).rejects.toMatchObject({ name: 'FileError', step: 'open' });
        await expect(file.stat()).rejects.toMatchObject({ code: 'source_changed', step: 'verify' });
        await file.close();
      });
    });

    describe('refuses as a destination', () => {
      test('a server that only reads', async () => {
        const readOnly = await otherServer({ readOnly: true });
        const refused = { code: 'permission_denied', step: 'open' };
        await expect(upload(endpoint({}, readOnly), readOnly.remotePath('new'), Buffer.from('x'))).rejects.toMatchObject(refused);
      });

      test('a path through a file', async () => {
        await writeFile(at('file-in-the-way'), 'x');
        await expect(endpoint().openDestination(at('file-in-the-way/below/name'), options(1))).rejects.toMatchObject({
          code: 'permission_denied',
        });
      });

      test('a folder of that name', async () => {
        await mkdir(at('folder-in-the-way'), { recursive: true });
        await expect(upload(endpoint(), at('folder-in-the-way'), Buffer.from('x'))).rejects.toMatchObject({ code: 'destination_exists' });
      });

      test('a full disk', async (ctx) => {
        if (!asRoot) return ctx.skip('a small disk takes root');
        const content = randomBytes(8 * MiB);
        await expect(upload(endpoint(), join(server.smallDisk, 'big'), content)).rejects.toMatchObject({ code: 'disk_full' });
        expect(await endpoint().list(server.smallDisk, never)).toEqual([]);
      });

      test('a path with a line break, of which nothing reaches the server', async () => {
        const path = `${at('x')}\r\nDELE ${at('canary')}`;
        await writeFile(at('canary'), 'x');
        await expect(endpoint().openDestination(path, options(1))).rejects.toMatchObject({ name: 'FileError' });
        await expect(endpoint().openSource(path, never)).rejects.toMatchObject({ name: 'FileError' });
        expect(await readFile(at('canary'), 'utf8')).toBe('x');
      });
    });

    test('says that it replaces atomically, as a rename does on this server', async () => {
      await upload(endpoint(), at('replaced'), Buffer.from('old'));
      expect(await upload(endpoint(), at('replaced'), Buffer.from('new'))).toMatchObject({ atomicReplace: true });
    });

    test('reads on from any offset, over as few data connections as it takes', async () => {
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

    test('without REST, reads on from the start and uploads anew', async () => {
      const config = kind === 'proftpd' ? 'AllowRetrieveRestart off\nAllowStoreRestart off' : 'cmds_denied=REST';
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
      const second = await over.openDestination(other.remotePath('to'), options(content.length, { resume }));
      expect(second.resumedFrom).toBe(0);
      await writeFrom(second, content);
      await second.commit(whole(content));
      await second.close();
      expect(content.equals(await readFile(join(other.root, 'to')))).toBe(true);
    });

    describe('where the server goes down', () => {
      test('a read fails, and the next one works', async () => {
        const other = await otherServer({});
        const content = randomBytes(64 * MiB);
        await writeFile(join(other.root, 'file'), content);
        const over = endpoint({}, other);
        const file = await over.openSource(other.remotePath('file'), never);
        await file.read(0, Buffer.alloc(MiB));
        await other.down();
        await expect(file.read(MiB, Buffer.alloc(63 * MiB))).rejects.toMatchObject({ code: 'connection_failed', step: 'transfer' });
        await file.close();
        expect(await over.connections()).toBe(0);
        await other.restart();
        expect(content.equals(await download(over, other.remotePath('file')))).toBe(true);
      });

      test('an upload goes on from what the server surely has', async () => {
        const other = await otherServer({});
        const content = randomBytes(5 * CHUNK + 7);
        const over = endpoint({}, other);
        const first = await over.openDestination(other.remotePath('file'), options(content.length));
        for (let chunk = 0; chunk < 3; chunk++) await first.write(chunk * CHUNK, content.subarray(chunk * CHUNK, (chunk + 1) * CHUNK));
        await other.down();
        await first.close();
        const resume = await first.resumePoint(3 * CHUNK);
        // What the system had taken may have got lost: here all but a bit more than one chunk.
        const { part } = resume.state as { part: string };
        await truncate(join(other.root, part), CHUNK + 100);
        await other.restart();
        const second = await over.openDestination(other.remotePath('file'), options(content.length, { resume }));
        expect(second.resumedFrom).toBe(CHUNK);
        await writeFrom(second, content);
        await second.commit(whole(content));
        await second.close();
        expect(content.equals(await readFile(join(other.root, 'file')))).toBe(true);
        expect(await readdir(other.root)).toEqual(['file']);
      });
    });

    describe('where the control connection is cut', () => {
      test('a read fails', async () => {
        await writeFile(at('cut-source'), randomBytes(32 * MiB));
        const { proxy, over } = await proxied();
        const file = await over.openSource(at('cut-source'), never);
        await file.read(0, Buffer.alloc(MiB));
        proxy.cut();
        await expect(readRest(file.read)).rejects.toMatchObject({ code: 'connection_failed', step: 'transfer' });
        await file.close();
        expect((await download(over, at('cut-source'))).length).toBe(32 * MiB);
      });

      test('what was written before can be removed', async () => {
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
        // The server has it all, and its word of that does not arrive.
        await vi.waitFor(async () => expect((await readdir(server.root)).some((name) => name.startsWith('.cut-commit'))).toBe(true));
        const { state } = await first.resumePoint(content.length);
        const { part } = state as { part: string };
        await vi.waitFor(async () => expect(await readFile(at(part))).toEqual(content));
        proxy.cut();
        await expect(committing).rejects.toMatchObject({ code: 'connection_failed', step: 'commit' });
        await first.close();
        proxy.stall(false);
        const resume = await first.resumePoint(content.length);
        const second = await over.openDestination(at('cut-commit'), options(content.length, { resume }));
        expect(second.resumedFrom).toBe(content.length);
        await second.commit(whole(content));
        await second.close();
        expect(await readFile(at('cut-commit'))).toEqual(content);
      });
    });

    test('a data connection that falls silent is a stall, also where the server takes all for sent', async (ctx) => {
      if (kind !== 'proftpd') return ctx.skip('only proftpd listens where its data connections can have a proxy');
      const behind = await startBehindProxy('ftps');
      onTestFinished(behind.stop);
      await behind.put('file', randomBytes(8 * MiB));
      const { host, port, base_path, ca_pem, username, password } = behind.request as Record<
        'host' | 'base_path' | 'ca_pem' | 'username' | 'password',
        string
      > & { port: number };
      const settings = { protocol: 'ftps' as const, host, port, base_path, username, tls: 'explicit' as const, ca_pem };
      const over = createFtpsEndpoint({ settings, credentials: { password }, maxConnections: 2, timeouts: { stallMs: 500 } });
      const file = await over.openSource(join(base_path, 'file'), never);
      behind.proxy.throttle(4 * MiB);
      const before = behind.proxy.forwarded.down;
      const reading = file.read(0, Buffer.alloc(8 * MiB));
      void vi.waitFor(() => expect(behind.proxy.forwarded.down - before).toBeGreaterThan(MiB), 10_000).then(() => behind.proxy.stall(true));
      await expect(reading).rejects.toMatchObject({ code: 'stalled', step: 'transfer' });
      await file.close();
      await over.close();
    });

    test('a source that is closed waits for no connection any more', async () => {
      const over = endpoint({ maxConnections: 1 });
      await upload(over, at('waited-for'), randomBytes(MiB));
      const file = await over.openSource(at('waited-for'), never);
      const holder = await over.openDestination(at('holder'), options(1));
      const reading = file.read(0, Buffer.alloc(MiB));
      await Promise.all([expect(reading).rejects.toMatchObject({ code: 'connection_failed' }), file.close()]);
      await holder.close();
    });

    test('a control connection that falls silent is a stall', async () => {
      const { proxy, over } = await proxied({ timeouts: { stallMs: 200 } });
      await writeFile(at('stalling'), randomBytes(MiB));
      const file = await over.openSource(at('stalling'), never);
      proxy.stall(true);
      await expect(file.read(0, new Uint8Array(MiB))).rejects.toMatchObject({ code: 'stalled' });
      await file.close();
    });

    describe('keeps connections', () => {
      test('never more than it may', async () => {
        const { proxy, over } = await proxied({ maxConnections: 2 });
        const names = Array.from({ length: 20 }, (_, index) => at(`small/${index}`));
        await Promise.all(names.map((name) => upload(over, name, Buffer.from(name))));
        const contents = await Promise.all(names.map((name) => download(over, name)));
        expect(contents.map(String)).toEqual(names);
        expect(proxy.connections).toBeLessThanOrEqual(2);
      });

      test('and says so where all stay in use', async () => {
        const over = endpoint({ maxConnections: 1, timeouts: { queueMs: 50 } });
        const file = await over.openDestination(at('holding'), options(1));
        await expect(over.list(server.root, never)).rejects.toMatchObject({ code: 'timeout', step: 'open' });
        await file.close();
        expect(await over.list(server.root, never)).toBeInstanceOf(Array);
      });

      test('no longer than they are idle', async () => {
        const over = endpoint({ timeouts: { idleMs: 20 } });
        await over.list(server.root, never);
        await vi.waitFor(async () => expect(await over.connections()).toBe(0));
      });

      test('only if they still answer', async () => {
        const { proxy, over } = await proxied({ timeouts: { trustMs: 0, connectMs: 2_000 } });
        await over.list(server.root, never);
        proxy.stall(true);
        const listing = over.list(server.root, never);
        await vi.waitFor(async () => expect(await over.connections()).toBe(0));
        proxy.stall(false);
        expect(await listing).toBeInstanceOf(Array);
      });

      test('until it is closed', async () => {
        const over = endpoint();
        const file = await over.openDestination(at('closed'), options(MiB));
        await over.close();
        await expect(file.write(0, randomBytes(MiB))).rejects.toMatchObject({ code: 'connection_failed' });
        await file.close();
        expect(await over.connections()).toBe(0);
        await expect(over.list(server.root, never)).rejects.toMatchObject({ code: 'connection_failed' });
      });
    });

    async function readRest(read: (offset: number, target: Uint8Array) => Promise<void>): Promise<void> {
      for (let offset = MiB; offset < 32 * MiB; offset += MiB) await read(offset, Buffer.alloc(MiB));
    }
  });
});
