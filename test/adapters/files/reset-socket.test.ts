import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { TIMEOUTS } from '../../../src/adapters/files/connection-timeouts.ts';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { startFtpsServer, whyNoFtpsServer } from '../../support/file-servers/ftps/server.ts';
import { endpointOn as sftpEndpointOn } from '../../support/file-servers/sftp/endpoint.ts';
import { startSftpServer, whyNoSftpServer } from '../../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';
import { endpointOn as ftpsEndpointOn } from './ftps/ftps-endpoint.ts';

const timeouts = { ...TIMEOUTS, stallMs: 500 };
const never = new AbortController().signal;

async function openSsh() {
  const server = await startSftpServer();
  const proxy = await startTcpProxy(server);
  const endpoint = sftpEndpointOn({ ...server, port: proxy.port }, { timeouts });
  return { server, proxy, endpoint, folder: server.root };
}

async function proftpd() {
  const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit' });
  const proxy = await startTcpProxy(server);
  const endpoint = ftpsEndpointOn(server, { timeouts, port: proxy.port });
  return { server, proxy, endpoint, folder: '/' };
}

for (const [name, whyNot, start] of [
  ['OpenSSH', await whyNoSftpServer(), openSsh],
  ['ProFTPD', await whyNoFtpsServer('proftpd'), proftpd],
] as const)
  describe.skipIf(whyNot)(`a connection to ${name}${whyNot ? ` (${whyNot})` : ''}`, () => {
    let endpoint: FileEndpoint;
    let proxy: TcpProxy;
    let stop: () => Promise<void>;
    afterEach(async () => {
      await endpoint?.close();
      await proxy?.close();
      await stop?.();
    });

    async function connect(): Promise<string> {
      const place = await start();
      ({ endpoint, proxy } = place);
      ({ stop } = place.server);
      // The requests of the tests go over this connection.
      await endpoint.list(place.folder, never);
      return place.folder;
    }

    const untilReset = () => vi.waitFor(() => expect(proxy.resets).toBe(1), 5_000);

    test('is reset if the server does not answer', async () => {
      const folder = await connect();
      proxy.stall(true);
      const listing = endpoint.list(folder, never);
      await untilReset();
      proxy.stall(false);
      await listing;
    });

    test('is reset with a request under way', async () => {
      const folder = await connect();
      proxy.stall(true);
      const stopped = new AbortController();
      const listing = endpoint.list(folder, stopped.signal).catch(() => {});
      await sleep(200);
      await endpoint.close();
      await untilReset();
      stopped.abort();
      await listing;
    });

    test('ends in order if no request is under way', async () => {
      await connect();
      await endpoint.close();
      await vi.waitFor(() => expect(proxy.connections).toBe(0), 5_000);
      expect(proxy.resets).toBe(0);
    });
  });
