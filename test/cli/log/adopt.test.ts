import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { parseConfig } from '../../../src/config.ts';
import { openInstallation } from '../../../src/installation.ts';
import {
  describeOnEventStoreDb,
  type EventStoreServer,
} from '../../support/event-store/eventstoredb.ts';
import { createTestDatabase, type TestDatabase } from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli } from '../../support/service/cli.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { addWebhook, appendTransfer, runOutbox } from '../../support/webhooks/webhooks.ts';

describeOnEventStoreDb('waybill log adopt', (startServer) => {
  let server: EventStoreServer;
  let owner: TestInstallation;
  let database: TestDatabase;
  beforeAll(async () => {
    server = await startServer();
    owner = await openTestInstallation(server.settings);
    database = await createTestDatabase();
  });
  afterAll(async () => {
    await owner?.close();
    await database?.drop();
    await server?.close();
  });

  it('is what a new database needs for the log of another one', {
    timeout: CLI_TIMEOUT_MS,
  }, async () => {
    const { store, logId, environment } = owner;
    await addWebhook(owner, 'https://receiver.example/hook', ['transfer.created']);
    await appendTransfer(store, []);
    const head = await store.head();
    const cli = createCli({ ...environment, DATABASE_URL: database.url });

    for (const command of [['serve'], ['transfers', 'list'], ['endpoints', 'remove', 'hospital']]) {
      const refused = await cli.run(command);
      expect([command, refused.code]).toEqual([command, 2]);
      expect(refused.stderr).toContain(`has the log ${logId}`);
      expect(refused.stderr).toContain('run waybill log adopt');
    }
    expect(await store.head()).toEqual(head);
    expect((await cli.run(['audit', 'verify'])).code).toBe(0);
    expect((await cli.run(['transfers', 'list'])).code).toBe(2);

    const adopted = await cli.run(['log', 'adopt', '--json']);
    expect([adopted.code, adopted.json()]).toEqual([0, [{ log_id: logId, adopted: true }]]);
    const again = await cli.run(['log', 'adopt', '--json']);
    expect([again.code, again.json()]).toEqual([0, [{ log_id: logId, adopted: false }]]);
    expect((await cli.run(['transfers', 'list'])).code).toBe(0);
  });

  it('begins no log where there is none', { timeout: CLI_TIMEOUT_MS }, async () => {
    const fresh = await createTestDatabase();
    onTestFinished(() => fresh.drop());
    const WAYBILL_STREAM_PREFIX = 'forgotten';
    const cli = createCli({
      ...owner.environment,
      DATABASE_URL: fresh.url,
      WAYBILL_STREAM_PREFIX,
    });
    for (const _ of [1, 2]) {
      const refused = await cli.run(['log', 'adopt']);
      expect([refused.code, refused.stdout]).toEqual([3, '']);
      expect(refused.stderr).toContain('WAYBILL_STREAM_PREFIX');
    }
  });

  it('sends no webhook what happened before', async () => {
    const config = parseConfig({ ...owner.environment, DATABASE_URL: database.url });
    const installation = await openInstallation(config, owner.logger);
    onTestFinished(() => installation.close());
    await runOutbox(installation);
    expect(await installation.sql`select event_id from work.deliveries`).toEqual([]);
    const { eventIds } = await appendTransfer(installation.store, []);
    await runOutbox(installation);
    const sent = await installation.sql`select event_id from work.deliveries`;
    expect(sent.map(({ event_id }) => event_id)).toEqual(eventIds);
  });
});
