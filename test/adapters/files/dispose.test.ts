import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TIMEOUTS } from '../../../src/adapters/files/connection-timeouts.ts';
import { heldPath } from '../../../src/adapters/files/part-name.ts';
import type { DisposeOptions, FileEndpoint } from '../../../src/adapters/files/port.ts';
import { newId } from '../../../src/domain/ids.ts';
import { endpointOn } from '../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';

const whyNot = await whyNoSftpServer();
const never = new AbortController().signal;
const STALL_MS = 1_000;

describe.skipIf(whyNot !== null)(
  `a source whose server is slow or goes away${whyNot ? ` (${whyNot})` : ''}`,
  () => {
    let server: SftpServer;
    let proxy: TcpProxy;
    let endpoint: FileEndpoint;
    let folder: string;
    let path: string;
    let held: string;
    let options: DisposeOptions;

    beforeAll(async () => {
      server = await startSftpServer();
    });
    beforeEach(async () => {
      proxy = await startTcpProxy(server);
      const timeouts = { ...TIMEOUTS, stallMs: STALL_MS };
      endpoint = endpointOn({ ...server, port: proxy.port }, { timeouts });
      const transferId = newId('txr');
      folder = join(server.root, transferId);
      mkdirSync(folder);
      path = join(folder, 'a.csv');
      held = heldPath(path, transferId);
      writeFileSync(path, 'the report');
      const { identity, close } = await endpoint.openSource(path, never);
      await close();
      options = { transferId, identity, moveTo: null, signal: never };
    });
    afterEach(async () => {
      await endpoint?.close();
      await proxy?.close();
    });
    afterAll(() => server?.stop());

    const isHeld = () => existsSync(held);

    /** Ends a `dispose` between the rename and the delete. */
    async function interrupt(): Promise<void> {
      const down = async () => {
        if (isHeld()) await proxy.refuse(true);
        return isHeld();
      };
      const broken = proxy.cutWhen(down, 'down');
      await expect(endpoint.dispose(path, options)).rejects.toMatchObject({
        code: 'connection_failed',
        // The first connection broke after the rename, the second one was refused.
        step: 'commit',
      });
      await broken;
      expect(readdirSync(folder)).toEqual([held.slice(folder.length + 1)]);
      await proxy.refuse(false);
    }

    test('may be renamed for longer than other requests take', async () => {
      const slow = proxy.holdWhen(isHeld, 'down');
      const disposing = endpoint.dispose(path, options);
      const release = await slow;
      // There is no second try, on another connection.
      await proxy.refuse(true);
      await sleep(2 * STALL_MS);
      void release();
      expect(await disposing).toEqual({ outcome: 'deleted' });
    });

    test('is untouched if the server is down', async () => {
      await endpoint.close();
      endpoint = endpointOn({ ...server, port: proxy.port });
      await proxy.refuse(true);
      await expect(endpoint.dispose(path, options)).rejects.toMatchObject({ step: 'connect' });
      await proxy.refuse(false);
    });

    test('gets its name back', async () => {
      await interrupt();
      expect(await endpoint.restoreSource?.(path, options)).toBe(true);
      expect(readdirSync(folder)).toEqual(['a.csv']);
      expect(await endpoint.restoreSource?.(path, options)).toBe(true);
    });

    test('gets a name with the id of the transfer beside a newer file', async () => {
      await interrupt();
      writeFileSync(path, 'newer');
      expect(await endpoint.restoreSource?.(path, options)).toBe(true);
      expect(readFileSync(path, 'utf8')).toBe('newer');
      expect(readdirSync(folder).toSorted()).toEqual(
        ['a.csv', `a.${options.transferId}.csv`].toSorted(),
      );
    });

    test('that was deleted has no name', async () => {
      expect(await endpoint.dispose(path, options)).toEqual({ outcome: 'deleted' });
      expect(await endpoint.restoreSource?.(path, options)).toBe(false);
    });
  },
);
