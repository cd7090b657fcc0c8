import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { endpointOn, type Given } from '../../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  type SftpServerOptions,
  startSftpServer,
  whyNoSftpServer,
} from '../../../support/file-servers/sftp/server.ts';
import { freePort } from '../../../support/network/free-port.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { LONG } from '../../../support/run/long.ts';
import {
  abandon,
  describeFileEndpoint,
  download,
  opened,
  options,
  readAll,
  upload,
  whole,
  writeFrom,
  written,
} from '../contract.ts';

const whyNot = await whyNoSftpServer();
const asRoot = process.getuid?.() === 0;
const never = new AbortController().signal;
const MiB = 1 << 20;

describeFileEndpoint(
  'SFTP on OpenSSH',
  whyNot,
  async () => {
    const server = await startSftpServer();
    const file = (name: string) => join(server.root, name);
    return {
      endpoint: endpointOn(server),
      path: file,
      async put(name, content) {
        await mkdir(dirname(file(name)), { recursive: true });
        await writeFile(file(name), content);
      },
      get: (name) => readFile(file(name)).catch(() => null),
      names: () => readdir(server.root, { recursive: true }),
      stop: server.stop,
    };
  },
  { partFiles: true },
);

const NOTHING = Buffer.alloc(0);

describe.skipIf(whyNot !== null)(whyNot === null ? 'SFTP' : `SFTP (${whyNot})`, () => {
  let server: SftpServer;
  const open: FileEndpoint[] = [];
  const proxies: TcpProxy[] = [];
  const servers: SftpServer[] = [];

  beforeAll(async () => {
    server = await startSftpServer(
      asRoot
        ? { smallDiskBytes: 2 * MiB, users: [{ username: 'guest', password: 'of no rights' }] }
        : {},
    );
  });
  afterEach(async () => {
    for (const endpoint of open.splice(0)) await endpoint.close();
    for (const proxy of proxies.splice(0)) await proxy.close();
    for (const other of servers.splice(0)) await other.stop();
  });
  afterAll(() => server?.stop());

  function endpoint(given: Given = {}, on: SftpServer = server): FileEndpoint {
    const made = endpointOn(on, given);
    open.push(made);
    return made;
  }

  async function otherServer(given: SftpServerOptions): Promise<SftpServer> {
    const other = await startSftpServer(given);
    servers.push(other);
    return other;
  }

  async function proxied(given: Given = {}): Promise<{ proxy: TcpProxy; over: FileEndpoint }> {
    const proxy = await startTcpProxy(server);
    proxies.push(proxy);
    return { proxy, over: endpoint({ settings: { port: proxy.port }, ...given }) };
  }

  const errorOf = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.fail('nothing was thrown'),
      (thrown: Error) => thrown,
    );
  const at = (name: string) => join(server.root, name);
  /** Returns how many files below a folder are open, in all processes. */
  async function openFiles(folder: string): Promise<number> {
    const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const targets = processes.map(async (pid) => {
      const files = `/proc/${pid}/fd`;
      const links = await readdir(files).catch(() => []);
      return Promise.all(links.map((link) => readlink(join(files, link)).catch(() => '')));
    });
    const open = (await Promise.all(targets)).flat();
    return open.filter((target) => target.startsWith(`${folder}/`)).length;
  }

  describe('signing in', () => {
    test('works with an encrypted key and its passphrase', async () => {
      const { privateKey, passphrase } = server.protectedKey;
      expect(
        await endpoint({ credentials: { private_key: privateKey, passphrase } }).list(
          server.root,
          never,
        ),
      ).toBeInstanceOf(Array);
    });

    test('works with a password', async (ctx) => {
      const { password } = server;
      if (password === undefined) return ctx.skip('OpenSSH checks passwords for root only');
      expect(await endpoint({ credentials: { password } }).list(server.root, never)).toBeInstanceOf(
        Array,
      );
    });

    test.each([
      ['a wrong password', { password: 'canary-in-a-password' }],
      ['no passphrase', (on: SftpServer) => ({ private_key: on.protectedKey.privateKey })],
      [
        'a wrong passphrase',
        (on: SftpServer) => ({
          private_key: on.protectedKey.privateKey,
          passphrase: 'canary-in-a-passphrase',
        }),
      ],
      ['a text that is not a key', { private_key: 'canary-in-a-key' }],
    ])('fails with %s', async (_name, given) => {
      const credentials = typeof given === 'function' ? given(server) : given;
      const error = await errorOf(endpoint({ credentials }).list(server.root, never));
      expect(error).toMatchObject({
        name: 'FileError',
        code: 'auth_failed',
        step: 'sign_in',
        message: 'Authentication failed',
      });
      expect(`${error.stack} ${(error.cause as Error)?.stack}`).not.toContain('canary');
    });
  });

  describe('the host key', () => {
    test('is rejected if it is not the pinned one', async () => {
      const hostKey = `SHA256:${'A'.repeat(43)}`;
      const wrong = endpoint({ settings: { host_key_sha256: hostKey } });
      const error = await errorOf(wrong.list(server.root, never));
      expect(error).toMatchObject({ code: 'host_key_mismatch', step: 'connect' });
      expect(error.message).toContain(server.hostKeySha256);
      expect(error.message).toContain(hostKey);
      expect(await wrong.probe(never)).toMatchObject({
        fingerprint: server.hostKeySha256,
        trusted: false,
        reason: error.message,
      });
    });

    test('is required before the first sign-in', async () => {
      const unpinned = endpoint({ settings: { host_key_sha256: null } });
      await expect(unpinned.list(server.root, never)).rejects.toMatchObject({
        code: 'host_key_mismatch',
      });
      expect(await unpinned.probe(never)).toMatchObject({
        fingerprint: server.hostKeySha256,
        trusted: false,
      });
    });
  });

  describe('a server is unreachable', () => {
    test('at a closed port', async () => {
      const nobody = endpoint({ settings: { port: await freePort() } });
      await expect(nobody.openSource('/x', never)).rejects.toMatchObject({
        code: 'connection_failed',
        step: 'connect',
      });
      await expect(nobody.probe(never)).rejects.toMatchObject({
        code: 'connection_failed',
        step: 'connect',
      });
    });

    test('under an unknown host name', async () => {
      await expect(
        endpoint({ settings: { host: 'no-such-host.invalid' } }).openSource('/x', never),
      ).rejects.toMatchObject({
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
  });

  describe('a source is rejected', () => {
    test('if it is a directory', async () => {
      await mkdir(at('a-directory'), { recursive: true });
      await expect(endpoint().openSource(at('a-directory'), never)).rejects.toMatchObject({
        code: 'source_not_found',
        message: `${at('a-directory')} is a directory`,
      });
    });

    test('if it is a pipe, which would block the server', async () => {
      execFileSync('mkfifo', [at('pipe')]);
      await expect(endpoint().openSource(at('pipe'), never)).rejects.toMatchObject({
        code: 'source_not_found',
      });
    });

    test('if it has bytes although the server calls it empty', async (ctx) => {
      const generated = '/proc/version';
      if (!existsSync(generated)) return ctx.skip('this system has no /proc');
      const file = await endpoint().openSource(generated, never);
      await expect(file.stat()).rejects.toMatchObject({
        code: 'size_unknown',
        message: `${generated}: the server reports 0 bytes and sends more`,
      });
      await file.close();
    });

    test('if it has fewer bytes than the server says, and was not cut', async (ctx) => {
      const generated = '/sys/class/net/lo/mtu';
      if (!existsSync(generated)) return ctx.skip('this system has no /sys');
      const { size } = await stat(generated);
      const { length: sent } = await readFile(generated);
      const file = await endpoint().openSource(generated, never);
      const target = new Uint8Array(size);
      for (const reading of [file.readWhole?.(target), file.read(0, target)])
        await expect(reading).rejects.toMatchObject({
          code: 'size_unknown',
          message: `${generated}: the server reports ${size} bytes and sends no more than ${sent}`,
        });
      await file.close();
    });

    test('if the user may not read it', async () => {
      await writeFile(at('private'), 'x');
      await chmod(at('private'), asRoot ? 0o600 : 0);
      const given = asRoot
        ? { settings: { username: 'guest' }, credentials: { password: 'of no rights' } }
        : {};
      await expect(endpoint(given).openSource(at('private'), never)).rejects.toMatchObject({
        code: 'permission_denied',
        step: 'open',
      });
    });
  });

  test('links are listed as neither files nor folders', async () => {
    await mkdir(at('links/folder'), { recursive: true });
    await writeFile(at('links/file'), 'x');
    await symlink('file', at('links/to-file'));
    await symlink('folder', at('links/to-folder'));
    const entries = await endpoint().list(at('links'), never);
    expect(Object.fromEntries(entries.map(({ name, type }) => [name, type]))).toEqual({
      folder: 'directory',
      file: 'file',
      'to-file': 'other',
      'to-folder': 'other',
    });
  });

  describe('a destination is rejected', () => {
    test('on a read-only server', async () => {
      const readOnly = await otherServer({ readOnly: true });
      await expect(
        upload(endpoint({}, readOnly), join(readOnly.root, 'new'), Buffer.from('x')),
      ).rejects.toMatchObject({
        code: 'permission_denied',
        step: 'open',
      });
    });

    test('if its path leads through a file', async () => {
      await writeFile(at('file-in-the-way'), 'x');
      await expect(
        endpoint().openDestination(at('file-in-the-way/below/name'), options(1)),
      ).rejects.toMatchObject({
        code: 'permission_denied',
        message: `${at('file-in-the-way')} is not a folder`,
      });
    });

    test('if its path leads through a link to nothing', async () => {
      await symlink('nothing', at('dangling'));
      await expect(
        endpoint().openDestination(at('dangling/name'), options(1)),
      ).rejects.toMatchObject({
        code: 'permission_denied',
        message: `${at('dangling')} is a link to nothing`,
      });
    });

    test('before a byte is sent, if a folder or a link to one has its name', async () => {
      await mkdir(at('occupied/folder'), { recursive: true });
      await symlink('folder', at('occupied/link'));
      const over = endpoint();
      for (const name of ['folder', 'link']) {
        const opening = over.openDestination(at(`occupied/${name}`), options(1));
        await expect(opening).rejects.toMatchObject({
          code: 'destination_exists',
          step: 'open',
          message: expect.stringContaining('is a folder: end the destination with a slash'),
        });
      }
      expect(await readdir(at('occupied'))).toEqual(['folder', 'link']);
      expect(await readlink(at('occupied/link'))).toBe('folder');
      // The connection is still good, and keeps no file open.
      await upload(over, at('occupied/file'), Buffer.from('x'));
      await symlink('file', at('occupied/link-to-file'));
      await upload(over, at('occupied/link-to-file'), Buffer.from('y'));
      expect(await readFile(at('occupied/link-to-file'), 'utf8')).toBe('y');
    });

    test('before a byte is sent, if a pipe or a link to one has its name', async () => {
      await mkdir(at('special'));
      execFileSync('mkfifo', [at('special/pipe')]);
      await symlink('pipe', at('special/link'));
      for (const name of ['pipe', 'link'])
        await expect(
          endpoint().openDestination(at(`special/${name}`), options(1)),
        ).rejects.toMatchObject({
          code: 'destination_exists',
          step: 'open',
          message: `${at(`special/${name}`)} is a device, pipe or socket: choose another name`,
        });
      expect(await readdir(at('special'))).toEqual(['link', 'pipe']);
    });

    test('before a byte is sent, if its name is too long', async () => {
      await mkdir(at('long-names'));
      for (const overwrite of [true, false]) {
        const opening = endpoint().openDestination(
          at(`long-names/${'x'.repeat(256)}`),
          options(1, { overwrite }),
        );
        await expect(opening).rejects.toMatchObject({
          step: 'open',
          message: expect.stringContaining('the name may be too long'),
        });
      }
      expect(await readdir(at('long-names'))).toEqual([]);
    });

    test('on a full disk', async (ctx) => {
      if (!asRoot) return ctx.skip('only root can mount a small disk');
      const content = randomBytes(4 * MiB);
      await expect(
        upload(endpoint(), join(server.smallDisk, 'big'), content),
      ).rejects.toMatchObject({
        code: 'disk_full',
        step: 'transfer',
      });
      expect(await endpoint().list(server.smallDisk, never)).toEqual([]);
    });

    test('on a disk without room for another name', async (ctx) => {
      if (!asRoot) return ctx.skip('only root can mount a small disk');
      const on = endpoint();
      const full = { code: 'disk_full', step: 'open' };
      const fill = async () => {
        for (let n = 0; n < 20; n++) await upload(on, join(server.smallDisk, `${n}`), NOTHING);
      };
      await expect(fill()).rejects.toMatchObject(full);
      await expect(
        upload(on, join(server.smallDisk, 'folder/name'), NOTHING),
      ).rejects.toMatchObject(full);
      for (const { name } of await on.list(server.smallDisk, never))
        await on.remove(join(server.smallDisk, name), never);
    });

    test.each(['name', 'folder/name'])('on a read-only disk, as %s', async (name) => {
      if (!asRoot) return;
      await expect(
        upload(endpoint(), join(server.readOnlyDisk, name), NOTHING),
      ).rejects.toMatchObject({
        code: 'permission_denied',
        message: expect.stringContaining('read-only'),
      });
    });
  });

  describe('on a server without extensions', () => {
    test('a commit sets the older file aside, and reports that this is not atomic', async () => {
      const plain = await otherServer({
        denied: ['posix-rename', 'fsync', 'hardlink', 'limits', 'statvfs'],
      });
      const path = join(plain.root, 'file');
      const content = randomBytes(MiB);
      expect(await upload(endpoint({}, plain), path, Buffer.from('old'))).toMatchObject({
        atomicReplace: true,
      });
      expect(await upload(endpoint({}, plain), path, content)).toMatchObject({
        atomicReplace: false,
      });
      expect(content.equals(await download(endpoint({}, plain), path))).toBe(true);
      expect(await readdir(plain.root)).toEqual(['file']);
    });

    test('the older file stays if it cannot be set aside', async (ctx) => {
      if (!asRoot) return ctx.skip('only root can create a file that others may not rename');
      const guest = { username: 'guest', password: 'of no rights' };
      const plain = await otherServer({ denied: ['posix-rename'], users: [guest] });
      const folder = join(plain.root, 'of-all');
      await mkdir(folder);
      await writeFile(join(folder, 'file'), 'old', { mode: 0o600 });
      await chmod(folder, 0o1777);
      const over = endpoint(
        { settings: { username: guest.username }, credentials: { password: guest.password } },
        plain,
      );
      await expect(upload(over, join(folder, 'file'), Buffer.from('new'))).rejects.toMatchObject({
        code: 'permission_denied',
        step: 'commit',
      });
      expect(await readFile(join(folder, 'file'), 'utf8')).toBe('old');
      expect(await readdir(folder)).toEqual(['file']);
    });

    test('a commit measures the file by its name if the server does not do so by its handle', async () => {
      const other = await otherServer({ denied: ['fstat'] });
      const content = randomBytes(9 * MiB);
      const over = endpoint({}, other);
      const path = join(other.root, 'measured');
      expect(await upload(over, path, content)).toMatchObject({ size: content.length });
      const given = options(content.length);
      const file = await over.openDestination(path, given);
      await file.write(0, content.subarray(0, MiB));
      await expect(file.commit(whole(content))).rejects.toMatchObject({ code: 'size_mismatch' });
      await abandon(over, file, path, given);
    });

    test.each([
      ['the same permissions', 0o640, 0o640],
      ['the same permissions, but its owner may write it', 0o444, 0o644],
    ])('a file that replaces another one has %s', async (_, before, after) => {
      await writeFile(at('shared'), 'old');
      await chmod(at('shared'), before);
      await upload(endpoint(), at('shared'), Buffer.from('new'));
      expect(await readFile(at('shared'), 'utf8')).toBe('new');
      expect((await stat(at('shared'))).mode & 0o777).toBe(after);
    });

    test('replacement is atomic on a server that can rename over a file', async () => {
      await upload(endpoint(), at('atomic'), Buffer.from('old'));
      expect(await upload(endpoint(), at('atomic'), Buffer.from('new'))).toMatchObject({
        atomicReplace: true,
      });
    });
  });

  describe('on a bad network', () => {
    test('a cut during a read fails the read, and the next one works', async () => {
      const content = randomBytes(32 * MiB);
      await writeFile(at('cut-source'), content);
      const { proxy, over } = await proxied();
      const file = await over.openSource(at('cut-source'), never);
      proxy.cutAfter(12 * MiB, 'down');
      await expect(readAll(file, Buffer.alloc(content.length))).rejects.toMatchObject({
        code: 'connection_failed',
        step: 'transfer',
      });
      await file.close();
      expect(await over.connections()).toBe(0);
      expect(content.equals(await download(over, at('cut-source')))).toBe(true);
    });

    test('a cut during a write loses nothing that was acknowledged', async () => {
      const content = randomBytes(32 * MiB);
      const { proxy, over } = await proxied();
      const first = await over.openDestination(at('cut-destination'), options(content.length));
      await first.write(0, content.subarray(0, first.chunkSize));
      proxy.cutAfter(2 * MiB, 'up');
      await expect(
        first.write(first.chunkSize, content.subarray(first.chunkSize, 2 * first.chunkSize)),
      ).rejects.toMatchObject({
        code: 'connection_failed',
        step: 'transfer',
      });
      await first.close();
      const second = await over.openDestination(
        at('cut-destination'),
        options(content.length, { resume: await first.resumePoint(first.chunkSize) }),
      );
      expect(second.resumedFrom).toBe(first.chunkSize);
      await writeFrom(second, content);
      await second.commit(whole(content));
      await second.close();
      expect(content.equals(await readFile(at('cut-destination')))).toBe(true);
    });

    test('writes before a cut can be removed', async () => {
      const { proxy, over } = await proxied();
      const given = options(MiB);
      const file = await over.openDestination(at('cut-and-removed/file'), given);
      await file.write(0, randomBytes(MiB));
      proxy.cut();
      await abandon(over, file, at('cut-and-removed/file'), given);
      expect(await readdir(at('cut-and-removed'))).toEqual([]);
    });

    test('a cut before the commit is reported, and the part stays for a successor', async () => {
      const content = randomBytes(1000);
      const { proxy, over } = await proxied();
      const first = await over.openDestination(at('cut-commit'), options(content.length));
      await first.write(0, content);
      proxy.stall(true);
      const committing = first.commit(whole(content));
      proxy.cut();
      await expect(committing).rejects.toMatchObject({ code: 'connection_failed', step: 'commit' });
      await first.close();
      proxy.stall(false);
      const second = await over.openDestination(
        at('cut-commit'),
        options(content.length, { resume: await first.resumePoint(content.length) }),
      );
      expect(second.resumedFrom).toBe(content.length);
      await second.commit(whole(content));
      await second.close();
      expect(await readFile(at('cut-commit'))).toEqual(content);
    });

    test('a big file uses several connections for writing, and one for reading', async () => {
      const content = randomBytes(64 * MiB);
      const { proxy, over } = await proxied({ maxConnections: 3 });
      proxy.delay(20);
      const file = await over.openDestination(at('far-away'), options(content.length));
      await vi.waitFor(async () => expect(await over.connections()).toBe(3), 30_000);
      await writeFrom(file, content);
      await file.commit(whole(content));
      await file.close();
      expect(content.equals(await download(over, at('far-away')))).toBe(true);
    });

    test(
      'a file that is closed while it connects again returns both connections',
      LONG,
      async () => {
        const { proxy, over } = await proxied({ maxConnections: 2, timeouts: { idleMs: 100 } });
        proxy.delay(100);
        const file = await over.openDestination(at('closed-early'), options(64 * MiB));
        // The next step opens the file over it, which takes a round trip.
        await vi.waitFor(async () => expect(await over.connections()).toBe(2), {
          timeout: 30_000,
          interval: 5,
        });
        await file.close();
        await vi.waitFor(async () => expect(await over.connections()).toBe(0), 30_000);
      },
    );

    test('a stall is an error', async () => {
      await writeFile(at('stalling'), randomBytes(MiB));
      const { proxy, over } = await proxied({ timeouts: { stallMs: 200 } });
      const file = await opened(over, at('stalling'));
      proxy.stall(true);
      await expect(file.read(0, new Uint8Array(MiB))).rejects.toMatchObject({
        code: 'stalled',
        step: 'transfer',
      });
      await file.close();
    });

    test('a server may take longer for the commit of a big file', LONG, async () => {
      // Five times as long for a big file. A pause of this process for two seconds fits in.
      const { proxy, over } = await proxied({ timeouts: { stallMs: 600 } });
      for (const [name, size, silent] of [
        ['slow-commit', 9 * MiB, null],
        ['no-commit', 9 * MiB, /nothing for 3 s/],
        ['small', MiB, /nothing for 0\.6 s/],
      ] as const) {
        const content = randomBytes(size);
        const file = await written(over, at(name), content);
        proxy.stall(true);
        if (silent === null) setTimeout(() => proxy.stall(false), 900);
        const committing = file.commit(whole(content));
        if (silent === null) expect(await committing).toMatchObject({ size });
        else
          await expect(committing).rejects.toMatchObject({
            code: 'stalled',
            step: 'commit',
            message: expect.stringMatching(silent),
          });
        await file.close();
        proxy.stall(false);
      }
    });

    test('a connection is replaced after the server restarted', async () => {
      const other = await otherServer({});
      const warm = endpoint({}, other);
      await upload(warm, join(other.root, 'file'), Buffer.from('kept'));
      await other.restart();
      await vi.waitFor(async () => expect(await warm.connections()).toBe(0), 30_000);
      expect(await download(warm, join(other.root, 'file'))).toEqual(Buffer.from('kept'));
    });
  });

  describe('connections', () => {
    test('stay warm for the next file', async () => {
      const { proxy, over } = await proxied();
      for (const name of ['one', 'two', 'three']) await upload(over, at(name), Buffer.from(name));
      expect(await over.connections()).toBe(1);
      expect(proxy.connections).toBe(1);
    });

    test('are shared by small files, up to the limit', async () => {
      const { proxy, over } = await proxied({ maxConnections: 2 });
      const names = Array.from({ length: 40 }, (_, index) => at(`small/${index}`));
      await Promise.all(names.map((name) => upload(over, name, Buffer.from(name))));
      const contents = await Promise.all(names.map((name) => download(over, name)));
      expect(contents.map(String)).toEqual(names);
      expect(proxy.connections).toBeLessThanOrEqual(2);
    });

    test('are separate for big files', async () => {
      const size = 9 * MiB;
      const over = endpoint({ maxConnections: 3 });
      const files = await Promise.all(
        [1, 2, 3, 4].map((index) => over.openDestination(at(`big-${index}`), options(size))),
      );
      expect(await over.connections()).toBe(3);
      for (const file of files) await file.close();
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

    test('are trusted for their last answer, not for their last use', async () => {
      const { proxy, over } = await proxied({ timeouts: { trustMs: 1_000, connectMs: 2_000 } });
      await over.list(server.root, never);
      proxy.stall(true);
      const control = new AbortController();
      const unanswered = errorOf(over.list(server.root, control.signal));
      await sleep(1_500);
      control.abort();
      await unanswered;
      const listing = over.list(server.root, never);
      await vi.waitFor(async () => expect(await over.connections()).toBe(0), 30_000);
      proxy.stall(false);
      expect(await listing).toBeInstanceOf(Array);
    });

    test('stay usable for other files when one file is aborted', async () => {
      const over = endpoint({ maxConnections: 1 });
      await writeFile(at('shared'), randomBytes(MiB));
      const control = new AbortController();
      const [aborted, kept] = await Promise.all([
        over.openSource(at('shared'), control.signal),
        over.openSource(at('shared'), never),
      ]);
      control.abort();
      await expect(aborted.read(0, new Uint8Array(MiB))).rejects.toMatchObject({
        name: 'FileError',
      });
      await kept.read(0, new Uint8Array(MiB));
      await aborted.close();
      await kept.close();
    });

    test('remove no part for a clean-up that was aborted while it listed the folder', async () => {
      const { proxy, over } = await proxied({ maxConnections: 1 });
      const folder = at('aborted-clean-up');
      await mkdir(folder);
      const given = options(1);
      const file = await over.openDestination(join(folder, 'file'), given);
      await file.close();
      const parts = await readdir(folder);
      expect(parts).toHaveLength(1);
      proxy.stall(true);
      const control = new AbortController();
      const { transferId } = given;
      const leftovers = { transferId, resume: null, signal: control.signal };
      const cleaning = errorOf(over.removeLeftovers(join(folder, 'file'), leftovers));
      // The request for the listing is on its way then.
      await sleep(10);
      control.abort();
      expect(await cleaning).toMatchObject({ name: 'FileError' });
      proxy.stall(false);
      // These take as many requests each.
      await over.list(folder, never);
      await over.list(folder, never);
      expect(await readdir(folder)).toEqual(parts);
      expect(await over.connections()).toBe(1);
    });

    test.each<{
      kind: string;
      begin: (over: FileEndpoint, folder: string) => Promise<(signal: AbortSignal) => unknown>;
    }>([
      {
        kind: 'source',
        async begin(over, folder) {
          await writeFile(join(folder, 'source'), 'content');
          return (signal) => over.openSource(join(folder, 'source'), signal);
        },
      },
      {
        kind: 'destination',
        begin: async (over, folder) => (signal) =>
          over.openDestination(join(folder, 'new'), options(MiB, { signal })),
      },
    ])('keep no file open whose $kind was aborted while it was opened', async ({ kind, begin }) => {
      const { proxy, over } = await proxied({ maxConnections: 1 });
      const folder = at(`aborted-${kind}`);
      await mkdir(folder);
      await writeFile(at('kept'), 'content');
      const kept = await over.openSource(at('kept'), never);
      const start = await begin(over, folder);
      const control = new AbortController();
      const held = proxy.holdWhen(async () => (await openFiles(folder)) > 0, 'down');
      const opening = errorOf(start(control.signal) as Promise<unknown>);
      const release = await held;
      control.abort();
      expect(await opening).toMatchObject({ name: 'FileError' });
      void release();
      await expect.poll(() => openFiles(folder)).toBe(0);
      await kept.read(0, new Uint8Array(7));
      await kept.close();
    });

    test('keep no part open whose reading was aborted while it was opened', async () => {
      const { proxy, over } = await proxied({ maxConnections: 1 });
      const folder = at('aborted-verification');
      await mkdir(folder);
      await writeFile(at('kept'), 'content');
      const kept = await over.openSource(at('kept'), never);
      const control = new AbortController();
      const file = await over.openDestination(
        join(folder, 'new'),
        options(MiB, { signal: control.signal }),
      );
      let written = false;
      const held = proxy.holdWhen(async () => {
        const open = await openFiles(folder);
        written ||= open === 0;
        return written && open > 0;
      }, 'down');
      const opening = errorOf(file.openWritten());
      const release = await held;
      control.abort();
      expect(await opening).toMatchObject({ name: 'FileError' });
      void release();
      await file.close();
      await expect.poll(() => openFiles(folder)).toBe(0);
      await kept.close();
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
});
