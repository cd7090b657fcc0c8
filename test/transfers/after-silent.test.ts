import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createTransfer, reserveTransfer } from '../../src/commands/create-transfer.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import { LONG } from '../support/run/long.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { describeTransfers, until } from '../support/service/transfers.ts';

vi.setConfig({ testTimeout: 180_000 });

const SILENT = ['north', 'east', 'south', 'west'];
/** More steps than a worker takes at one endpoint. */
const STEPS = 6;

await describeTransfers('steps after transfers at servers that fall silent', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let roles: RunningRoles;
  const proxies: TcpProxy[] = [];
  /** The endpoint of each source that is to be deleted at a silent server, by transfer. */
  const endpoints = new Map<string, string>();

  beforeAll(async () => {
    [installation, server] = await Promise.all([openTestInstallation(), startSftpServer()]);
    await configureSftp(installation, 'healthy', server);
    for (const name of SILENT) {
      const proxy = await startTcpProxy(server);
      proxies.push(proxy);
      await configureSftp(installation, name, { ...server, port: proxy.port });
    }
    roles = await startRoles(installation);
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([installation?.close(), ...proxies.map((proxy) => proxy.close())]);
    await server?.stop();
  });

  const file = (name: string) => join(server.root, name);

  /** Submits a transfer whose source is to be deleted. The step waits until it is made due. */
  async function submitHeld(endpoint: string, name: string): Promise<void> {
    writeFileSync(file(name), 'the file that is copied');
    const reserved = reserveTransfer();
    await installation.sql`
      insert into work.after_steps (transfer_id, due_at) values (${reserved.transferId}, 'infinity')`;
    const request = transferRequest.parse({
      source_uri: `sftp://${endpoint}/${name}`,
      destination_uri: `sftp://healthy/copies/${name}`,
      after: { source: 'delete' },
    });
    await createTransfer(installation.commands, 'acc_default', request, CAUSE, reserved);
    endpoints.set(reserved.transferId, endpoint);
  }

  /** Copies a file and deletes its source at once. */
  async function copyAndDelete(endpoint: string, name: string): Promise<void> {
    writeFileSync(file(name), 'the file that is copied');
    const uris = [`sftp://${endpoint}/${name}`, `sftp://healthy/copies/${name}`] as const;
    const id = await submit(installation, ...uris, { after: { source: 'delete' } });
    await untilStatus(installation, id, 'completed');
    await until('the source is deleted', () => !existsSync(file(name)), 120);
  }

  /** Takes a step at the healthy server while the first tries at all silent ones are under way. */
  async function deletedMeanwhile(name: string): Promise<void> {
    await until('a step is tried at each silent server', async () => {
      const rows = await installation.sql`
        select transfer_id from work.after_steps where begun and lease_until > now()`;
      const tried = new Set(rows.map(({ transfer_id }) => endpoints.get(transfer_id as string)));
      return tried.size === SILENT.length;
    });
    await copyAndDelete('healthy', name);
    expect(await installation.sql`select from work.after_steps where tries > 0`).toEqual([]);
  }

  test('hold up no steps at other servers', async () => {
    for (const endpoint of ['healthy', ...SILENT]) await copyAndDelete(endpoint, 'answered');
    const names = SILENT.flatMap((endpoint) =>
      Array.from({ length: STEPS }, (_, n) => [endpoint, `${endpoint}-${n}`] as const),
    );
    await Promise.all(names.map(([endpoint, name]) => submitHeld(endpoint, name)));
    for (const id of endpoints.keys()) await untilStatus(installation, id, 'completed');
    for (const proxy of proxies) proxy.stall(true);
    await installation.sql`update work.after_steps set due_at = now()`;
    await installation.sql`select pg_notify('waybill_after', '')`;
    await deletedMeanwhile('first');
  });

  test('hold up no steps in a process that has just started', LONG, async () => {
    await roles.stop();
    await installation.sql`update work.after_steps set due_at = now(), tries = 0`;
    roles = await startRoles(installation);
    await deletedMeanwhile('second');
  });
});
