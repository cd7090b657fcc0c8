import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { newId } from '../../../src/domain/ids.ts';
import { loadCheckpoint } from '../../../src/projections/checkpoint.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import { TRANSFER_EVENTS, transferCreated } from '../../support/domain/samples.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli } from '../../support/service/cli.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { appendEvents } from '../../support/webhooks/webhooks.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS, hookTimeout: CLI_TIMEOUT_MS });

const OLD = '2020-01-31T09:30:00.000Z';

describeWithPostgres('waybill retention run', () => {
  let installation: TestInstallation;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-retention-'));
    installation = await openTestInstallation();
  });
  afterAll(async () => {
    await installation?.close();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  async function appendOld(): Promise<string> {
    const data = transferCreated({ transfer_id: newId('txr'), created_at: OLD });
    const stream = `transfer-${data.transfer_id}`;
    const created = { type: 'transfer.created', data } as const;
    const events = [created, TRANSFER_EVENTS.cancelled];
    await appendEvents(installation.store, stream, events, data.account_id, new Date(OLD));
    return stream;
  }

  it('says that transfers are recorded, if none has left the log yet', async () => {
    const { store, sql, locks, commands, environment } = installation;
    const stream = await appendOld();
    await commands.catchUp('audit');
    const before = await loadCheckpoint(sql, 'read.checkpoints', 'audit');
    // As a process of an older version, whose last event is one of the transfer.
    const held = await locks.tryAcquire(lockOf('audit'));
    await sql`update read.checkpoints set position = 1000000, event_stream = ${stream}
               where name = 'audit'`;
    const run = ['retention', 'run', '--older-than', '400d', '--export', folder];
    const cli = createCli(environment);
    const ran = await cli.run(run);
    expect(ran).toMatchObject({
      code: 5,
      stdout: expect.stringMatching(
        /^1 transfers with 2 events are recorded, and will leave the log\n\w{64} {2}waybill-before/,
      ),
      stderr: expect.stringMatching(/^A process is behind the log, so recorded transfers are /m),
    });
    expect(await store.read(stream)).toHaveLength(2);

    const { position, event } = before ?? {};
    await sql`update read.checkpoints
                 set position = ${String(position)}, event_stream = ${event?.stream ?? null}
               where name = 'audit'`;
    await held?.release();
    expect(await cli.run(run)).toMatchObject({
      code: 0,
      stdout: '0 transfers with 0 events left the log\n',
    });
    expect(await store.read(stream)).toEqual([]);
  });
});
