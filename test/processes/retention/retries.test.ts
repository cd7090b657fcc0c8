import { afterAll, beforeAll, expect, test } from 'vitest';
import { changeBatch } from '../../../src/commands/batches.ts';
import { createBatch, reserveBatch } from '../../../src/commands/create-batch.ts';
import { retryTransfer } from '../../../src/commands/retry.ts';
import { cancelTransfer } from '../../../src/commands/transfers.ts';
import { batchRequest } from '../../../src/contract/batches/requests.ts';
import { runRetention } from '../../../src/processes/retention/run-retention.ts';
import { PROJECTIONS } from '../../../src/projections/read-models.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';

describeWithPostgres('retention', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
    await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'secret-1',
    });
    await installation.commands.catchUp('catalog');
  });
  afterAll(() => installation?.close());

  async function removable(): Promise<number> {
    for (const { name } of Object.values(PROJECTIONS)) await installation.commands.catchUp(name);
    const endedBefore = new Date(Date.now() + 60_000);
    const run = { endedBefore, accountId: null, folder: null, onExport: async () => undefined };
    return (await runRetention(installation, run, CAUSE)).transfers;
  }

  test('keeps retries of a transfer whose batch is open', async () => {
    const { commands } = installation;
    const items = ['a', 'b'].map((name) => ({
      source_uri: `sftp://files/${name}`,
      destination_uri: 'sftp://files/copies/',
    }));
    const { batch, transferIds } = await createBatch(
      commands,
      'acc_default',
      batchRequest.parse({ items }),
      CAUSE,
      reserveBatch(),
      false,
    );
    const [first, open] = transferIds as [string, string];
    await cancelTransfer(commands, first, CAUSE);
    let last = first;
    for (let i = 0; i < 2; i++) {
      const { state } = await retryTransfer(commands, 'acc_default', last, CAUSE);
      last = state.facts.transfer_id;
      await cancelTransfer(commands, last, CAUSE);
    }
    expect(await removable()).toBe(0);

    await cancelTransfer(commands, open, CAUSE);
    const ended = { completed: 0, failed: 0, cancelled: 2 };
    const now = new Date().toISOString();
    const command = { type: 'complete', ended, bytes: 0, now } as const;
    await changeBatch(commands, batch.state.batch_id, command, CAUSE);
    expect(await removable()).toBe(4);
  });
});
