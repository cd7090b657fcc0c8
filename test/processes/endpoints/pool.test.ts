import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  type Disposed,
  type FileEndpoint,
  FileError,
  type OpenDestination,
} from '../../../src/adapters/files/port.ts';
import { createSftpEndpoint } from '../../../src/adapters/files/sftp/endpoint.ts';
import { createEndpointPool, type EndpointPool } from '../../../src/processes/endpoints/pool.ts';
import { endpointConfigured, sftpSettings } from '../../support/domain/samples.ts';

const never = new AbortController().signal;
const CONNECT_MS = 300;
const STATE = {
  status: 'configured' as const,
  paused: false,
  unreachable_since: null,
  announced_host_keys: [],
  revision: 0,
};

describe('a server that accepts connections and says nothing', () => {
  let server: Server;
  let pool: EndpointPool;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    server = createServer((socket) => sockets.push(socket.on('error', () => {}))).listen(
      0,
      '127.0.0.1',
    );
    await once(server, 'listening');
  });
  afterEach(async () => {
    await pool?.close();
    for (const socket of sockets.splice(0)) socket.destroy();
    server.close();
  });

  async function silent(): Promise<FileEndpoint> {
    const { address: host, port } = server.address() as AddressInfo;
    const settings = sftpSettings({ host, port });
    const credentials = { password: 'a password' };
    pool = createEndpointPool({
      vault: { open: async <T>() => credentials as T },
      open: () =>
        createSftpEndpoint({
          settings,
          credentials,
          maxConnections: 16,
          timeouts: { connectMs: CONNECT_MS },
        }),
    });
    return (await pool.lend({ ...endpointConfigured({ settings }), ...STATE })).endpoint;
  }

  test('delays all waiting callers once, and is tried again for the next caller', async () => {
    const endpoint = await silent();
    const unanswered = { code: 'timeout', step: 'connect' };
    await Promise.all(
      [1, 2, 3].map((n) =>
        expect(endpoint.openSource(`/${n}`, never)).rejects.toMatchObject(unanswered),
      ),
    );
    expect(sockets).toHaveLength(1);
    await expect(endpoint.openSource('/4', never)).rejects.toMatchObject(unanswered);
    expect(sockets).toHaveLength(2);
  });

  test('is tried for the next waiting caller when the first one gives up', async () => {
    const endpoint = await silent();
    const control = new AbortController();
    const [first, second] = [
      endpoint.openSource('/1', control.signal),
      endpoint.openSource('/2', never),
    ];
    await vi.waitFor(() => expect(sockets).toHaveLength(1), 30_000);
    control.abort();
    await expect(first).rejects.toMatchObject({ code: 'connection_failed' });
    await expect(second).rejects.toMatchObject({ code: 'timeout' });
  });

  test('answers a caller that gives up while another one waits for the server', async () => {
    const endpoint = await silent();
    const control = new AbortController();
    const first = endpoint.openSource('/1', never);
    const second = endpoint.openSource('/2', control.signal);
    control.abort();
    await expect(second).rejects.toMatchObject({ code: 'connection_failed', step: 'connect' });
    await expect(first).rejects.toMatchObject({ code: 'timeout' });
  });
});

describe('a source that takes long to delete', () => {
  const options = {
    transferId: 'txr_1',
    identity: { size: 1, version: '1' },
    moveTo: null,
    signal: never,
  };

  test.each([
    ['opens', async () => ({ close: async () => undefined })],
    ['is missing', () => Promise.reject(new FileError('source_not_found', 'open', 'No such file'))],
  ])('and %s holds up no other call', async (_, openSource) => {
    const deleting = Promise.withResolvers<Disposed>();
    const disposed: string[] = [];
    const pool = createEndpointPool({
      vault: { open: async <T>() => ({ password: 'a password' }) as T },
      open: () =>
        ({
          openSource,
          removeLeftovers: async () => undefined,
          dispose(path: string) {
            disposed.push(path);
            return deleting.promise;
          },
          close: async () => undefined,
        }) as unknown as FileEndpoint,
    });
    const { endpoint } = await pool.lend({ ...endpointConfigured({}), ...STATE });
    const results = ['/1', '/2'].map((path) => endpoint.dispose(path, options));
    await vi.waitFor(() => expect(disposed).toEqual(['/1', '/2']));
    await endpoint.removeLeftovers('/3', { ...options, resume: null });
    deleting.resolve({ outcome: 'deleted' });
    await Promise.all(results);
    await pool.close();
  });

  test('is not touched if the server does not answer', async () => {
    const down = new FileError('connection_failed', 'connect', 'Connection refused');
    const pool = createEndpointPool({
      vault: { open: async <T>() => ({ password: 'a password' }) as T },
      open: () =>
        ({
          openSource: () => Promise.reject(down),
          dispose: () => Promise.reject(new Error('not reached')),
          close: async () => undefined,
        }) as unknown as FileEndpoint,
    });
    const { endpoint } = await pool.lend({ ...endpointConfigured({}), ...STATE });
    await expect(endpoint.dispose('/1', options)).rejects.toBe(down);
    await pool.close();
  });
});

test('a folder that takes long to clean up holds up no other call', async () => {
  const listing = Promise.withResolvers<void>();
  const pool = createEndpointPool({
    vault: { open: async <T>() => ({ password: 'a password' }) as T },
    open: () =>
      ({
        openSource: () => Promise.reject(new FileError('source_not_found', 'open', 'No such file')),
        openDestination: () => Promise.reject(new FileError('permission_denied', 'open', 'No')),
        removeLeftovers: () => listing.promise,
        close: async () => undefined,
      }) as Partial<FileEndpoint> as FileEndpoint,
  });
  const { endpoint } = await pool.lend({ ...endpointConfigured({}), ...STATE });
  const cleaning = endpoint.removeLeftovers('/1', { transferId: 't', resume: null, signal: never });
  const opening = endpoint.openDestination('/2', { signal: never } as OpenDestination);
  await expect(opening).rejects.toMatchObject({ code: 'permission_denied' });
  listing.resolve();
  await cleaning;
  await pool.close();
});

test('an endpoint that cannot tell its connections hides those of no other', async () => {
  const counts: Record<string, () => Promise<number>> = {
    bank: async () => 3,
    broken: () => Promise.reject(new Error('it cannot be opened')),
  };
  const pool = createEndpointPool({
    vault: { open: async <T>() => ({ password: 'a password' }) as T },
    open: ({ name }) =>
      ({ connections: counts[name], close: async () => undefined }) as unknown as FileEndpoint,
  });
  for (const name of Object.keys(counts))
    await pool.lend({ ...endpointConfigured({ endpoint_id: `end_${name}`, name }), ...STATE });
  expect([...(await pool.connections())]).toEqual([['bank', 3]]);
  await pool.close();
});

test('an endpoint that was removed is closed after its last use, with its credentials', async () => {
  const closed: string[] = [];
  const pool = createEndpointPool({
    vault: { open: async <T>() => ({ password: 'a password' }) as T },
    open: ({ name }) =>
      ({
        connections: async () => 0,
        close: async () => void closed.push(name),
      }) as unknown as FileEndpoint,
  });
  const configured = ['kept', 'idle', 'used'].map((name) => ({
    ...endpointConfigured({ endpoint_id: `end_${name}`, name }),
    ...STATE,
  }));
  const lent = await Promise.all(configured.map((endpoint) => pool.lend(endpoint)));
  for (const { release } of lent.slice(0, 2)) release();
  pool.closeRemoved(configured.slice(0, 1));
  expect([...(await pool.connections()).keys()]).toEqual(['kept']);
  await vi.waitFor(() => expect(closed).toEqual(['idle']));
  lent[2]?.release();
  await vi.waitFor(() => expect(closed).toEqual(['idle', 'used']));
  await pool.close();
});
