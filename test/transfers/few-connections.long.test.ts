import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { findWait } from '../../src/processes/dispatch/waiting-for.ts';
import {
  type FtpsServer,
  startFtpsServer,
  whyNoFtpsServer,
} from '../support/file-servers/ftps/server.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import {
  configureEndpoint,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnMover,
  startDispatch,
  startRoles,
} from '../support/service/roles.ts';
import { describeTransfers, until } from '../support/service/transfers.ts';

const ACCEPTED = 2;
const BYTES = 2 << 20;
/** So slow that the first uploads take longer than a transfer waits for a connection. */
const BYTES_PER_SECOND = 32 << 10;

vi.setConfig({ testTimeout: 10 * 60_000 });
const whyNot = await whyNoFtpsServer('proftpd');

await describeTransfers('an FTPS server that accepts few connections', () => {
  let installation: TestInstallation;
  let source: SftpServer;
  let server: FtpsServer;
  let roles: RunningRoles;

  beforeAll(async () => {
    [installation, source, server] = await Promise.all([
      openTestInstallation(),
      startSftpServer(),
      startFtpsServer({
        kind: 'proftpd',
        tls: 'explicit',
        extraConfig: `MaxClientsPerUser ${ACCEPTED}`,
      }),
    ]);
    const { host, port, root, username, password, caPem } = server;
    await configureSftp(installation, 'source', source);
    await configureEndpoint(installation, {
      name: 'few',
      protocol: 'ftps',
      host,
      port,
      base_path: root,
      username,
      password,
      ca_pem: caPem,
      max_connections: 4,
      bandwidth: { bytes_per_second: BYTES_PER_SECOND },
    });
    roles = await startRoles(installation);
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([installation?.close(), source?.stop(), server?.stop()]);
  });

  describe.skipIf(whyNot !== null)('lets files wait without a retry', () => {
    test('in the places of one mover', async () => {
      const moving = await moveAll(['a', 'b', 'c', 'd']);
      const waits = async () => {
        const found = await Promise.all(
          moving.map(async ({ id }) => {
            const transfer = await untilStatus(installation, id, [
              'queued',
              'in_progress',
              'completed',
            ]);
            return findWait(installation.sql, transfer);
          }),
        );
        return found.filter((wait) => wait !== null);
      };
      await until('two of them wait in the queue', async () => (await waits()).length === 2, 180);
      expect(await waits()).toMatchObject([
        { reason: 'endpoint_full', in_use: ACCEPTED, limit: ACCEPTED },
        { reason: 'endpoint_full', in_use: ACCEPTED, limit: ACCEPTED },
      ]);
      await untilArrived(moving);
    });

    test('if another mover has all connections', async () => {
      await roles.stop();
      const dispatch = startDispatch(installation);
      const full = await spawnMover(installation.environment, { WAYBILL_MOVERS: `${ACCEPTED}` });
      const others: SpawnedService[] = [];
      try {
        const moving = await moveAll(['e', 'f']);
        await until('the server is full', () => server.sessions === ACCEPTED, 60);
        others.push(await spawnMover(installation.environment));
        await untilArrived([...moving, ...(await moveAll(['g', 'h']))]);
        expect(others[0]?.output()).toContain('fewer connections than max_connections');
      } finally {
        await Promise.all([dispatch, full, ...others].map((running) => running.stop()));
      }
    });
  });

  async function moveAll(files: string[]): Promise<{ file: string; id: string }[]> {
    for (const file of files) writeFileSync(join(source.root, file), randomBytes(BYTES));
    return Promise.all(
      files.map(async (file) => ({
        file,
        id: await submit(installation, `sftp://source/${file}`, `ftps://few/${file}`),
      })),
    );
  }

  async function untilArrived(moving: { file: string; id: string }[]): Promise<void> {
    for (const { file, id } of moving) {
      const { status, facts } = await untilStatus(installation, id, ['completed', 'failed'], 400);
      expect({ status, retries: facts.retry_count }).toEqual({ status: 'completed', retries: 0 });
      expect(await readFile(join(server.root, file))).toEqual(
        await readFile(join(source.root, file)),
      );
    }
  }
});
