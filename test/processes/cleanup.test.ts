import { randomBytes } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { abortTransfer, cancelTransfer } from '../../src/commands/transfers.ts';
import { CAUSE, configureSftp, openTestInstallation, submit, type TestInstallation, untilStatus } from '../support/installation.ts';
import { type RunningRoles, startRoles } from '../support/roles.ts';
import { holdRows } from '../support/row-locks.ts';
import { type SftpServer, startSftpServer } from '../support/sftp-server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { describeTransfers, filesBelow, storyOf, until } from '../support/transfers.ts';

// They move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;

await describeTransfers('what a transfer that ends leaves', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let source: TcpProxy;
  let destination: TcpProxy;
  let roles: RunningRoles;
  let endpointId: string;

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: '100ms' }),
      startSftpServer(),
      startSftpServer(),
    ]);
    [source, destination] = await Promise.all([startTcpProxy(alpha), startTcpProxy(beta)]);
    roles = await startRoles(installation);
    endpointId = await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'slow', { ...alpha, port: source.port });
    await configureSftp(installation, 'beta', { ...beta, port: destination.port });
    writeFileSync(join(alpha.root, 'file'), randomBytes(32 * MiB));
  });
  beforeEach(() => destination.throttle(4 * MiB));
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([source?.close(), destination?.close()]);
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  const files = (folder: string) => (existsSync(join(beta.root, folder)) ? filesBelow(join(beta.root, folder)) : Promise.resolve([]));
  const partOf = (id: string, folder: string) =>
    until(`the part of ${id}`, async () => (await files(folder)).find((name) => name.includes(id) && name.endsWith('.part')));
  const idle = () => until('no mover works', async () => (await installation.sql`select from work.movers where active > 0`).length === 0);

  test('aborted by an operator in the middle: it has failed at once, its mover stops, and its part goes', async () => {
    const id = await submit(installation, 'sftp://alpha/file', 'sftp://beta/aborted/');
    await partOf(id, 'aborted');
    await abortTransfer(installation.commands, id, CAUSE);
    const { facts } = await untilStatus(installation, id, 'failed');
    expect(facts.error).toMatchObject({ code: 'aborted_by_operator', retryable: false });
    await idle();
    await until('its part is gone', async () => (await files('aborted')).length === 0);
    expect(await storyOf(installation, id)).toEqual(['created', 'queued: admitted', 'in_progress', 'failed']);
    await expect(abortTransfer(installation.commands, id, CAUSE)).rejects.toMatchObject({ code: 'transfer_not_cancellable' });
  });

  test('aborted, and its mover hears of it only when it has begun to write after the clean-up', async () => {
    source.stall(true);
    // Leases are renewed together, in the order of their transfers: while this one's row is held, the next one's loss is not heard of.
    const other = await submit(installation, 'sftp://alpha/file', 'sftp://beta/other/');
    const id = await submit(installation, 'sftp://slow/file', 'sftp://beta/late/');
    await Promise.all([untilStatus(installation, id, 'in_progress'), partOf(other, 'other')]);
    const row = await holdRows(installation.sql, (tx) => tx`select from work.transfer_jobs where transfer_id = ${other} for update`);
    await until('its mover waits', async () => (await row.waiting('set lease_until')) > 0);
    await abortTransfer(installation.commands, id, CAUSE);
    await until(
      'its row is gone',
      async () => (await installation.sql`select from work.transfer_jobs where transfer_id = ${id}`).length === 0,
    );
    await until('the clean-up', async () => (await installation.sql`select from work.cleanups`).length === 0);
    source.stall(false);
    await partOf(id, 'late');
    await row.release();
    await until('the part is gone', async () => (await files('late')).length === 0);
    destination.throttle(Number.POSITIVE_INFINITY);
    expect(await untilStatus(installation, other, ['completed', 'failed'])).toMatchObject({ status: 'completed' });
  });

  test('cancelled while it waits for a retry: its part goes, and those of others stay', async () => {
    const ids = await Promise.all([1, 2].map(() => submit(installation, 'sftp://alpha/file', 'sftp://beta/shared/')));
    const [first, second] = ids as [string, string];
    await Promise.all(ids.map((id) => partOf(id, 'shared')));
    await pauseEndpoint(installation.commands, endpointId, CAUSE);
    await destination.refuse(true);
    destination.cut();
    await Promise.all(ids.map((id) => untilStatus(installation, id, 'queued')));
    destination.throttle(Number.POSITIVE_INFINITY);
    await destination.refuse(false);
    await cancelTransfer(installation.commands, first, CAUSE);
    await until('its part is gone', async () => (await files('shared')).every((name) => !name.includes(first)));
    expect(await files('shared')).toEqual([expect.stringContaining(second)]);

    await resumeEndpoint(installation.commands, endpointId, CAUSE);
    expect(await untilStatus(installation, second, ['completed', 'failed'])).toMatchObject({ status: 'completed' });
    await until('the clean-up', async () => (await installation.sql`select from work.cleanups`).length === 0);
    expect(await files('shared')).toEqual(['file']);
  });
});
