import { mkdirSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createFtpsEndpoint } from '../../../src/adapters/files/ftps/endpoint.ts';
import { partPath } from '../../../src/adapters/files/part-name.ts';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { MarkerEvent } from '../../../src/domain/transfers/after.ts';
import { type Completed, writeMarker } from '../../../src/processes/after/steps.ts';
import type { ConfiguredEndpoint } from '../../../src/projections/catalog/queries.ts';
import { startScriptedFtpsServer } from '../../support/file-servers/ftps/scripted-server.ts';
import { endpointOn } from '../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';

const whyNot = await whyNoSftpServer();
const never = new AbortController().signal;

async function writeTo(
  endpoint: FileEndpoint,
  transferId: string,
  path: string,
  { overwrite = true } = {},
): Promise<MarkerEvent> {
  const facts = {
    transfer_id: transferId,
    destination: 'sftp://beta/a.csv',
    after: { source: 'keep', destination_marker: '.done' },
  };
  const written = await writeMarker(
    {
      lend: async () => ({ endpoint, release() {} }),
      connections: async () => new Map(),
      closeRemoved: () => undefined,
      announcedHostKeys: async () => [],
      close: async () => {},
    },
    { status: 'completed', facts } as Completed,
    { configured: { overwrite } as ConfiguredEndpoint, path },
    never,
  );
  return written(new Date().toISOString());
}

describe.skipIf(whyNot !== null)(
  `a marker that is not written${whyNot ? ` (${whyNot})` : ''}`,
  () => {
    let server: SftpServer;
    let proxy: TcpProxy;
    let endpoint: FileEndpoint;
    let folder: string;
    const transferId = newId('txr');

    beforeAll(async () => {
      server = await startSftpServer();
    });
    beforeEach(async () => {
      proxy = await startTcpProxy(server);
      endpoint = endpointOn({ ...server, port: proxy.port });
      folder = join(server.root, newId('txr'));
      mkdirSync(folder);
      writeFileSync(join(folder, 'a.csv'), 'the report');
    });
    afterEach(async () => {
      await endpoint?.close();
      await proxy?.close();
    });
    afterAll(() => server?.stop());

    const marker = () => join(folder, 'a.csv.done');
    const names = async () => (await readdir(folder)).toSorted();
    const hasPart = async () => (await names()).some((name) => name.endsWith('.marker.part'));

    const write = (options = {}) => writeTo(endpoint, transferId, marker(), options);

    test('leaves nothing if a folder has its name, and touches no other part', async () => {
      mkdirSync(marker());
      const others = [
        partPath(join(folder, 'a.csv'), transferId, newId('clm')),
        partPath(marker(), newId('txr'), 'marker'),
      ];
      for (const other of others) writeFileSync(other, '');
      const before = await names();
      await expect(write()).rejects.toMatchObject({ code: 'destination_exists' });
      expect(await names()).toEqual(before);
    });

    test('leaves nothing if another transfer was first', async () => {
      const held = proxy.holdWhen(hasPart, 'down');
      const writing = write({ overwrite: false });
      const release = await held;
      writeFileSync(marker(), '');
      void release();
      expect(await writing).toMatchObject({ type: 'transfer.marker_written' });
      expect(await names()).toEqual(['a.csv', 'a.csv.done']);
    });

    test('leaves nothing if its connection breaks', async () => {
      const broken = proxy.cutWhen(hasPart, 'down');
      await expect(write()).rejects.toMatchObject({ code: 'connection_failed' });
      await broken;
      expect(await names()).toEqual(['a.csv']);
    });

    test('is not given up while its part cannot be removed, because the server is down', async () => {
      const hasPartAndIsDown = async () => {
        const has = await hasPart();
        if (has) await proxy.refuse(true);
        return has;
      };
      const broken = proxy.cutWhen(hasPartAndIsDown, 'down');
      await expect(write()).rejects.toMatchObject({ code: 'connection_failed', step: 'connect' });
      await broken;
      expect(await hasPart()).toBe(true);
      await proxy.refuse(false);
      expect(await write()).toMatchObject({ type: 'transfer.marker_written' });
      expect(await names()).toEqual(['a.csv', 'a.csv.done']);
    });
  },
);

test('a marker is not given up while its part cannot be removed, because the link breaks', async () => {
  let isUp = false;
  let isBroken = false;
  const gone = '421 Service not available';
  const server = await startScriptedFtpsServer({
    STOR: (_path, { data, say }) => {
      say('150 Go ahead');
      void data().then((socket) => socket.resume());
      return '226 Done';
    },
    SIZE: () => '213 0',
    RNTO: () => {
      isBroken = true;
      return isUp ? '250 Renamed' : gone;
    },
    CWD: () => (isBroken && !isUp ? gone : '550 No such folder'),
  });
  const endpoint = createFtpsEndpoint({
    settings: {
      ...server,
      protocol: 'ftps',
      base_path: '/',
      username: 'someone',
      tls: 'explicit',
      ca_pem: server.caPem,
    },
    credentials: { password: 'a password' },
    maxConnections: 2,
  });
  const write = () => writeTo(endpoint, newId('txr'), '/a.csv.done');
  await expect(write()).rejects.toMatchObject({ code: 'connection_failed', step: 'connect' });
  isUp = true;
  expect(await write()).toMatchObject({ type: 'transfer.marker_written' });
  await endpoint.close();
  await server.stop();
});
