import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import ssh2, { type SFTPWrapper } from 'ssh2';
import { afterEach, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  createSftpEndpoint,
  type SftpEndpointOptions,
} from '../../../../src/adapters/files/sftp/endpoint.ts';
import { internalsOf } from '../../../../src/adapters/files/sftp/fast-path/internals.ts';
import {
  type DemoServer,
  fingerprintOf,
  newHostKey,
  startDemoServer,
} from '../../../../src/dev/sftp-server.ts';
import { endpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  type SftpServerOptions,
  startSftpServer,
  whyNoSftpServer,
} from '../../../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { longUnless } from '../../../support/run/long.ts';
import { download, options, upload, whole } from '../contract.ts';

const whyNot = await whyNoSftpServer();
const never = new AbortController().signal;
const MiB = 1 << 20;
/** Not on a boundary of any kind. */
const ODD_SIZE = 9 * MiB + 12_345;

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function openssh(options: SftpServerOptions = {}): Promise<SftpServer> {
  const server = await startSftpServer(options);
  closers.push(server.stop);
  return server;
}

async function demoServer(): Promise<{ server: DemoServer; root: string; hostKey: string }> {
  const root = await mkdtemp(join(tmpdir(), 'waybill-fast-path-'));
  closers.push(() => rm(root, { recursive: true, force: true }));
  const hostKey = newHostKey();
  const server = await startDemoServer({
    root,
    port: 0,
    hostKey,
    username: 'demo',
    password: 'demo',
  });
  closers.push(server.close);
  return { server, root, hostKey };
}

describe.each([
  ['with the fast path', true],
  ['with ssh2 alone', false],
])('SFTP %s', (_name, fastPath) => {
  function endpoint(
    given: Pick<SftpEndpointOptions, 'settings' | 'credentials'>,
    maxConnections = 1,
  ): FileEndpoint {
    const made = createSftpEndpoint({ ...given, maxConnections, fastPath });
    closers.push(made.close);
    return made;
  }

  function on(server: SftpServer, port = server.port): FileEndpoint {
    const made = endpointOn(server, { settings: { port }, maxConnections: 1, fastPath });
    closers.push(made.close);
    return made;
  }

  async function bothWays(
    over: FileEndpoint,
    folder: string,
    content: Buffer,
    name = 'file',
    path = join(folder, name),
  ): Promise<void> {
    await upload(over, path, content);
    expect(content.equals(await readFile(join(folder, name)))).toBe(true);
    expect(content.equals(await download(over, path))).toBe(true);
  }

  describe.skipIf(whyNot !== null)(
    whyNot === null ? 'on OpenSSH' : `on OpenSSH (${whyNot})`,
    longUnless(fastPath),
    () => {
      test('keeps every byte during repeated key exchanges', async () => {
        const server = await openssh({ extraConfig: 'RekeyLimit 1M' });
        await bothWays(on(server), server.root, randomBytes(ODD_SIZE));
      });

      test('keeps files apart that share a connection, in both directions', async () => {
        const server = await openssh({ extraConfig: 'RekeyLimit 4M' });
        const over = on(server);
        const files = Array.from({ length: 12 }, (_, index) => ({
          name: `file-${index}`,
          content: randomBytes(MiB + 997 * index),
        }));
        const listings = Array.from({ length: 20 }, () => over.list(server.root, never));
        await Promise.all(
          files.map(({ name, content }) => bothWays(over, server.root, content, name)),
        );
        expect(await Promise.all(listings)).toHaveLength(20);
        expect(await over.connections()).toBe(1);
      });

      test.each([
        'aes128-gcm@openssh.com',
        'aes256-gcm@openssh.com',
        'chacha20-poly1305@openssh.com',
        'aes256-ctr',
      ])('speaks %s', async (cipher) => {
        const server = await openssh({ extraConfig: `Ciphers ${cipher}\nRekeyLimit 4M` });
        await bothWays(on(server), server.root, randomBytes(ODD_SIZE));
      });

      test('waits for a slow server', async () => {
        const server = await openssh();
        const proxy: TcpProxy = await startTcpProxy(server);
        closers.push(proxy.close);
        proxy.throttle(16 * MiB);
        await bothWays(on(server, proxy.port), server.root, randomBytes(ODD_SIZE));
      });

      test('sends nothing of a file that was closed into the next one', async () => {
        const server = await openssh();
        const proxy = await startTcpProxy(server);
        closers.push(proxy.close);
        const over = on(server, proxy.port);
        await upload(over, join(server.root, 'other'), Buffer.from('other'));
        const other = await over.openSource(join(server.root, 'other'), never);
        const closed = await over.openDestination(join(server.root, 'closed'), options(8 * MiB));
        proxy.stall(true);
        const writing = closed.write(0, randomBytes(8 * MiB)).catch(() => {});
        await turn();
        const closing = closed.close();
        const next = over.openDestination(join(server.root, 'next'), options(1));
        await turn();
        proxy.stall(false);
        const file = await next;
        await Promise.all([writing, closing]);
        await file.write(0, Buffer.from('1'));
        await file.commit(whole(Buffer.from('1')));
        await file.close();
        expect(await readFile(join(server.root, 'next'), 'utf8')).toBe('1');
        await other.close();
      });

      test('reassembles packets that the network splits', async () => {
        const server = await openssh({ extraConfig: 'RekeyLimit 1M' });
        const port = await startShredder(server);
        await bothWays(on(server, port), server.root, randomBytes(3 * MiB + 1));
      });
    },
  );

  test('works with a server that has short packets and many concurrent requests', async () => {
    const { server, root, hostKey } = await demoServer();
    const settings = {
      protocol: 'sftp',
      host: '127.0.0.1',
      port: server.port,
      base_path: '/',
      username: 'demo',
      host_key_sha256: fingerprintOf(hostKey),
      host_keys: null,
    } as const;
    const over = endpoint({ settings, credentials: { password: 'demo' } });
    const files = Array.from({ length: 4 }, (_, index) => ({
      name: `file-${index}`,
      content: randomBytes(5 * MiB + index),
    }));
    await Promise.all(
      files.map(({ name, content }) => bothWays(over, root, content, name, `/${name}`)),
    );
  });
});

test('knows the internals of the installed ssh2', async () => {
  const { server } = await demoServer();
  const socket = connect({ host: '127.0.0.1', port: server.port });
  const client = new ssh2.Client();
  closers.push(async () => client.destroy());
  const sftp = await new Promise<SFTPWrapper>((resolve, reject) => {
    client
      .on('error', reject)
      .on('ready', () => client.sftp((error, opened) => (error ? reject(error) : resolve(opened))));
    client.connect({ sock: socket, username: 'demo', password: 'demo' });
  });
  expect(internalsOf(client, sftp, socket)).not.toBeNull();
});

/**
 * Forwards to a server in pieces of odd sizes, each in its own turn of the event loop. Returns its
 * port.
 */
async function startShredder(target: { host: string; port: number }): Promise<number> {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ ...target, noDelay: true });
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from.on('error', () => {}));
      void shred(from, to).catch(() => to.destroy());
    }
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  closers.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

async function shred(from: Socket, to: Socket): Promise<void> {
  let size = 1;
  for await (const data of from as AsyncIterable<Buffer>) {
    for (let start = 0; start < data.length; start += size) {
      size = (size * 7 + 3) % 4099;
      to.write(data.subarray(start, start + size));
      await turn();
    }
  }
  to.end();
}
