import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
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
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
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

  test.skipIf(whyNot !== null)('lets files wait without a retry', async () => {
    const files = ['a', 'b', 'c', 'd'];
    for (const file of files) writeFileSync(join(source.root, file), randomBytes(BYTES));
    const ids = await Promise.all(
      files.map((file) => submit(installation, `sftp://source/${file}`, `ftps://few/${file}`)),
    );
    const waits = async () => {
      const found = await Promise.all(
        ids.map(async (id) => {
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
    for (const [i, id] of ids.entries()) {
      const { status, facts } = await untilStatus(installation, id, ['completed', 'failed'], 400);
      expect({ status, retries: facts.retry_count }).toEqual({ status: 'completed', retries: 0 });
      const file = files[i] as string;
      expect(await readFile(join(server.root, file))).toEqual(
        await readFile(join(source.root, file)),
      );
    }
  });
});
