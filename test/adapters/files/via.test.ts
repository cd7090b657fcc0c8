import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { credentialsOf, definitionOf } from '../../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { ENDPOINT_KINDS, type TestEndpoint } from '../../support/file-servers/endpoints.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../support/file-servers/sftp/server.ts';
import { freePort } from '../../support/network/free-port.ts';
import {
  type ProxyType,
  startProxy,
  type TestProxy,
  whyNoProxies,
} from '../../support/network/proxies.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';
import { download, upload } from './contract.ts';

const whyNot = (await whyNoSftpServer()) ?? (await whyNoProxies());
const never = new AbortController().signal;
const account = { username: 'mover', password: 'canary-of-a-proxy' };
/** More than one chunk, so that several requests are under way. */
const content = randomBytes(3 << 20);

describe.skipIf(whyNot !== null)(`a hop before the server${whyNot ? ` (${whyNot})` : ''}`, () => {
  let target: SftpServer;
  let jump: SftpServer;
  let proxies: Record<ProxyType, TestProxy>;
  const open: { close(): Promise<unknown> }[] = [];

  beforeAll(async () => {
    const [http, socks5, ...servers] = await Promise.all([
      startProxy('http', { account }),
      startProxy('socks5', { account }),
      startSftpServer(),
      startSftpServer(),
    ]);
    [target, jump] = servers;
    proxies = { http, socks5 };
  });
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });
  afterAll(() =>
    Promise.all([proxies?.http.stop(), proxies?.socks5.stop(), target?.stop(), jump?.stop()]),
  );

  const viaJump = () => ({
    type: 'ssh',
    host: jump.host,
    port: jump.port,
    username: jump.username,
    private_key: jump.privateKey,
    host_keys: [{ sha256: jump.hostKeySha256 }],
  });
  const viaProxy = (type: ProxyType) => ({
    type,
    host: proxies[type].host,
    port: proxies[type].port,
    ...account,
  });
  const HOPS = {
    ssh: viaJump,
    http: () => viaProxy('http'),
    socks5: () => viaProxy('socks5'),
  };
  const NAMES = { ssh: 'jump host', http: 'HTTP proxy', socks5: 'SOCKS5 proxy' };
  const TYPES = ['ssh', 'http', 'socks5'] as const;

  async function endpointOf(request: Record<string, unknown>): Promise<FileEndpoint> {
    const parsed = endpointRequest.parse({ name: 'behind', max_connections: 2, ...request });
    const made = await openFileEndpoint(definitionOf(parsed), credentialsOf(parsed).credentials);
    open.push(made);
    return made;
  }

  const sftpOver = (via: Record<string, unknown>, changes: Record<string, unknown> = {}) =>
    endpointOf({
      protocol: 'sftp',
      host: target.host,
      port: target.port,
      base_path: target.root,
      username: target.username,
      private_key: target.privateKey,
      host_key_sha256: target.hostKeySha256,
      via,
      ...changes,
    });

  /** Returns a hop that is reached through a TCP proxy, which counts its connections. */
  async function counted(type: (typeof TYPES)[number]): Promise<{
    via: ReturnType<(typeof HOPS)[typeof type]>;
    proxy: TcpProxy;
  }> {
    const via = HOPS[type]();
    const proxy = await startTcpProxy({ host: via.host, port: via.port });
    open.push(proxy);
    return { via: { ...via, port: proxy.port }, proxy };
  }

  test.each(TYPES)('moves files over %s, and leaves no connection behind', async (type) => {
    const { via, proxy } = await counted(type);
    const endpoint = await sftpOver(via);
    await endpoint.reach?.(never);
    expect(await endpoint.probe(never)).toEqual({
      fingerprint: target.hostKeySha256,
      trusted: true,
      reason: null,
    });
    const path = `${target.root}/over-${type}`;
    await upload(endpoint, path, content);
    expect((await download(endpoint, path)).equals(content)).toBe(true);
    expect(proxy.connections).toBeGreaterThan(0);
    await endpoint.close();
    await expect.poll(() => proxy.connections, { timeout: 30_000 }).toBe(0);
  });

  test.each(TYPES)('loses the connection with %s, and connects again', async (type) => {
    const { via, proxy } = await counted(type);
    const endpoint = await sftpOver(via);
    await endpoint.list(target.root, never);
    expect(await endpoint.connections()).toBe(1);
    proxy.cut();
    await expect.poll(() => endpoint.connections(), { timeout: 30_000 }).toBe(0);
    expect(await endpoint.list(target.root, never)).toBeInstanceOf(Array);
  });

  test.each(TYPES)('names %s if nothing listens there', async (type) => {
    const via = { ...HOPS[type](), port: await freePort() };
    const endpoint = await sftpOver(via);
    const message = `The ${NAMES[type]} 127.0.0.1:${via.port}: connection refused: nothing listens at this address and port`;
    const error = { code: 'connection_failed', step: 'connect', message };
    await expect(endpoint.list(target.root, never)).rejects.toMatchObject(error);
    await expect(endpoint.probe(never)).rejects.toMatchObject(error);
    await expect(endpoint.reach?.(never)).rejects.toMatchObject(error);
  });

  test.each(TYPES)('says that %s does not reach the server', async (type) => {
    const { via, proxy } = await counted(type);
    const port = await freePort();
    const endpoint = await sftpOver(via, { port });
    await expect(endpoint.list(target.root, never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
      message: expect.stringContaining(
        `The ${NAMES[type]} 127.0.0.1:${via.port} did not connect to 127.0.0.1:${port}: `,
      ),
    });
    await expect.poll(() => proxy.connections, { timeout: 30_000 }).toBe(0);
  });

  test.each(TYPES)('fails once with credentials that %s rejects', async (type) => {
    const { private_key: _, ...via } = { private_key: '', ...HOPS[type](), password: 'canary-x' };
    const counting = await startTcpProxy({ host: via.host, port: via.port });
    open.push(counting);
    const endpoint = await sftpOver({ ...via, port: counting.port });
    const failed = await endpoint.list(target.root, never).catch((error: Error) => error);
    expect(failed).toMatchObject({
      code: 'auth_failed',
      step: 'sign_in',
      message: expect.stringMatching(new RegExp(`^The ${NAMES[type]} .* rejected the `)),
    });
    expect(`${(failed as Error).stack} ${String((failed as Error).cause)}`).not.toContain('canary');
    await expect(endpoint.probe(never)).rejects.toMatchObject({ code: 'auth_failed' });
    const before = counting.forwarded.up;
    // The next probes do not sign in again: that would lock the account.
    await expect(endpoint.probe(never)).rejects.toMatchObject({ code: 'auth_failed' });
    expect(counting.forwarded.up).toBe(before);
  });

  test.each(['http', 'socks5'] as const)('says that %s asks for a password', async (type) => {
    const { host, port } = proxies[type];
    const endpoint = await sftpOver({ type, host, port });
    await expect(endpoint.list(target.root, never)).rejects.toMatchObject({
      code: 'auth_failed',
      message: expect.stringContaining('asks for a user name and password'),
    });
  });

  test('sends no password to a jump host whose key is not accepted', async () => {
    const { via, proxy } = await counted('ssh');
    for (const [host_keys, reason] of [
      [[], 'and none has been accepted'],
      [[{ sha256: target.hostKeySha256 }], `expected ${target.hostKeySha256}`],
      [
        [{ sha256: jump.hostKeySha256, expires_at: '2026-01-31T00:00:00Z' }],
        'which expired at 2026-01-31T00:00:00Z',
      ],
    ] as const) {
      const endpoint = await sftpOver({ ...via, host_keys });
      await expect(endpoint.list(target.root, never)).rejects.toMatchObject({
        code: 'host_key_mismatch',
        step: 'connect',
        message: expect.stringMatching(
          `^The jump host .*: The server presents the host key .*${reason}`.replace(/\+/g, '.'),
        ),
      });
    }
    await expect.poll(() => proxy.connections, { timeout: 30_000 }).toBe(0);
  });

  test('still checks the host key of the server behind it', async () => {
    for (const type of TYPES) {
      const endpoint = await sftpOver(HOPS[type](), { host_key_sha256: jump.hostKeySha256 });
      await expect(endpoint.list(target.root, never)).rejects.toMatchObject({
        code: 'host_key_mismatch',
        message: expect.stringMatching(/^The server presents/),
      });
    }
  });

  test('gives up on a hop that does not answer', async () => {
    for (const type of TYPES) {
      const { via, proxy } = await counted(type);
      proxy.stall(true);
      const endpoint = await sftpOver(via);
      const stop = new AbortController();
      const probing = endpoint.probe(stop.signal);
      await expect.poll(() => proxy.connections, { timeout: 30_000 }).toBe(1);
      stop.abort();
      await expect(probing).rejects.toMatchObject({ code: 'connection_failed' });
      proxy.stall(false);
      await expect.poll(() => proxy.connections, { timeout: 30_000 }).toBe(0);
    }
  });

  describe.each(['s3-strict', 'azure'] as const)('of %s', (kind) => {
    const { whyNot: reason, start } = ENDPOINT_KINDS[kind];
    let store: TestEndpoint;
    beforeAll(async () => {
      if (reason === null) store = await start();
    });
    afterAll(() => store?.stop());

    test.skipIf(reason !== null).each(['http', 'socks5'] as const)(
      `moves files over %s${reason ? ` (${reason})` : ''}`,
      async (type) => {
        const { via, proxy } = await counted(type);
        const endpoint = await endpointOf({ ...store.request, via });
        await endpoint.reach?.(never);
        expect(await endpoint.probe(never)).toMatchObject({ trusted: true });
        await upload(endpoint, `over-${type}`, content);
        expect((await download(endpoint, `over-${type}`)).equals(content)).toBe(true);
        expect(await endpoint.connections()).toBeGreaterThan(0);
        expect(proxy.connections).toBe(await endpoint.connections());
        await endpoint.close();
        await expect.poll(() => proxy.connections, { timeout: 30_000 }).toBe(0);
      },
    );

    test.skipIf(reason !== null)('names the proxy that rejects the password', async () => {
      for (const type of ['http', 'socks5'] as const) {
        const via = { ...viaProxy(type), password: 'canary-x' };
        const endpoint = await endpointOf({ ...store.request, via });
        await expect(endpoint.list('', never)).rejects.toMatchObject({
          code: 'auth_failed',
          message: expect.stringMatching(new RegExp(`^The ${NAMES[type]} .* rejected the user`)),
        });
      }
    });
  });
});
