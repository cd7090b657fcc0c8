import { beforeAll, expect, test, vi } from 'vitest';
import { pauseEndpoint } from '../../src/commands/endpoints.ts';
import { requestProjectionTask } from '../../src/processes/projections/tasks.ts';
import { ping } from '../../src/processes/webhooks/deliveries.ts';
import { describeConsole, expectGoodLooks } from '../support/console.ts';
import { freePort } from '../support/free-port.ts';
import { CAUSE, configureEndpoint } from '../support/installation.ts';
import { useConsole } from '../support/use-console.ts';
import { addWebhook, appendTransfer, type Step } from '../support/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 180_000 });

await describeConsole('the pages of administration', () => {
  const console = useConsole({
    WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WAYBILL_WEBHOOK_RETRY_DELAYS: '1ms',
  });
  let paths: string[];

  beforeAll(async () => {
    const { installation } = console;
    const endpoint = await configureEndpoint(installation, {
      name: 'a-name-as-long-as-they-are-allowed'.padEnd(63, '-x'),
      protocol: 's3',
      bucket: 'buckets'.padEnd(63, '-x'),
      access_key_id: 'id',
      secret_access_key: 'secret',
    });
    // Its longest states, side by side: the host key is not accepted, and it is paused.
    const untrusted = await configureEndpoint(installation, {
      name: 'untrusted',
      protocol: 'sftp',
      host: 'localhost',
      port: await freePort(),
      username: 'nobody',
      password: 'none',
    });
    await pauseEndpoint(installation.commands, untrusted, CAUSE);
    await requestProjectionTask(installation.sql, 'transfers', 'verify', 'test');
    const { transferId } = await appendTransfer(installation.store, [
      ...['admitted', 'started', 'retry', 'started', 'lost', 'started', 'completed'],
    ] as Step[]);
    const url = `http://127.0.0.1:${await freePort()}/`;
    const webhookId = await addWebhook(installation, url.padEnd(300, 'x'), [
      'transfer.completed',
      'endpoint.connectivity_lost',
    ]);
    const delivery = await ping(installation.sql, { webhookId, accountId: 'acc_default' });
    const failed = () =>
      installation.sql`select from work.deliveries where id = ${delivery} and status = 'failed'`;
    await vi.waitUntil(async () => (await failed()).length > 0, 30_000);
    paths = [
      '/console/settings/endpoints',
      '/console/settings/endpoints/new',
      `/console/settings/endpoints/${endpoint}`,
      `/console/settings/endpoints/${untrusted}`,
      `/console/settings/endpoints/${endpoint}/edit`,
      '/console/settings/api-keys',
      '/console/webhooks',
      `/console/webhooks/${webhookId}`,
      `/console/webhooks/${webhookId}/deliveries/${delivery}`,
      '/console/webhooks/failed-deliveries',
      '/console/webhooks/failed-deliveries?account=all',
      '/console/operations',
      `/console/transfers/${transferId}`,
    ];
  });

  test('are accessible, and fit the screen, at each width and in each theme', async () => {
    const page = await console.visitSignedIn('/console/settings/endpoints');
    for (const path of paths) {
      await page.goto(path);
      await page.locator('h1').waitFor();
      await page.locator('main :is(table, form, .card)').first().waitFor();
      expect(await page.getByRole('alert').count()).toBe(0);
      await expectGoodLooks(page);
    }
  });
});
