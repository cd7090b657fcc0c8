import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli } from '../../support/service/cli.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { addWebhook, appendTransfer, runOutbox } from '../../support/webhooks/webhooks.ts';

describeWithPostgres('waybill projections rebuild outbox', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  it('makes the outbox continue at the end of a log that it did not know', {
    timeout: CLI_TIMEOUT_MS,
  }, async () => {
    const { sql, store, environment } = installation;
    const told = async () =>
      (await sql<{ event_id: string }[]>`select event_id from work.deliveries`).map(
        ({ event_id }) => event_id,
      );
    const webhookId = await addWebhook(installation, 'https://receiver.example/hook', [
      'transfer.created',
    ]);
    await runOutbox(installation);
    // An event that the outbox has not read yet.
    await appendTransfer(store, []);
    await sql`update work.checkpoints set log_id = 'another' where name = 'outbox'`;
    await expect(runOutbox(installation)).rejects.toThrow('waybill projections rebuild outbox');

    const cli = createCli(environment);
    const rebuilt = await cli.run(['projections', 'rebuild', 'outbox', '--json']);
    expect([rebuilt.code, rebuilt.json()]).toEqual([0, [{ projection: 'outbox', rebuilt: true }]]);
    await runOutbox(installation);
    expect(await told()).toEqual([]);
    const { eventIds } = await appendTransfer(store, []);
    await runOutbox(installation);
    expect(await told()).toEqual(eventIds);
    expect(await sql`select webhook_id, live from work.outbox_webhooks`).toMatchObject([
      { webhook_id: webhookId, live: true },
    ]);
    expect(await cli.run(['projections', 'rebuild', 'outbox'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('earlier events are not delivered'),
    });
  });
});
