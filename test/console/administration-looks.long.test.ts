import { beforeAll, expect, test, vi } from 'vitest';
import { loseConnectivity, pauseEndpoint } from '../../src/commands/endpoints.ts';
import { load } from '../../src/commands/handle.ts';
import { endpointDecider } from '../../src/domain/endpoints/decider.ts';
import type { Endpoint } from '../../src/domain/endpoints/endpoint.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { requestProjectionTask } from '../../src/processes/projections/tasks.ts';
import { ping } from '../../src/processes/webhooks/deliveries.ts';
import {
  describeConsole,
  expectAccessible,
  expectGoodLooks,
  expectNoSidewaysScroll,
} from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { freePort } from '../support/network/free-port.ts';
import { CAUSE, configureEndpoint } from '../support/service/installation.ts';
import {
  addDeliveries,
  addWebhook,
  appendTransfer,
  type Step,
} from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 180_000 });

await describeConsole('the pages of administration', () => {
  const console = useConsole({
    WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WAYBILL_WEBHOOK_RETRY_DELAYS: '1ms',
  });
  let ids: Record<'endpoint' | 'untrusted' | 'webhook' | 'delivery' | 'transfer', string>;

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
    // Its longest word has no place to break.
    await installation.sql`
      update work.deliveries set event_type = 'endpoint.connectivity_restored'
       where id = ${delivery}`;
    ids = { endpoint, untrusted, webhook: webhookId, delivery, transfer: transferId };
  });

  /** `npm test` looks at one page of each kind: a list, a form, the details of one thing. */
  const pages: [name: string, path: () => string][] = [
    ['the endpoints', () => 'settings/endpoints'],
    ['a new endpoint', () => 'settings/endpoints/new'],
    ['an endpoint', () => `settings/endpoints/${ids.endpoint}`],
    ['an endpoint that is not trusted', () => `settings/endpoints/${ids.untrusted}`],
    ['the form of an endpoint', () => `settings/endpoints/${ids.endpoint}/edit`],
    ['the API keys', () => 'settings/api-keys'],
    ['the webhooks', () => 'webhooks'],
    ['a webhook', () => `webhooks/${ids.webhook}`],
    ['a delivery', () => `webhooks/${ids.webhook}/deliveries/${ids.delivery}`],
    ['failed deliveries', () => 'webhooks/failed-deliveries'],
    ['failed deliveries of all accounts', () => 'webhooks/failed-deliveries?account=all'],
    ['operations', () => 'operations'],
    ['the history of a transfer', () => `transfers/${ids.transfer}`],
  ];
  for (const [name, path] of pages)
    test(`${name}: accessible, fits the screen in each width and theme`, async () => {
      const page = await console.visitSignedIn(`/console/${path()}`);
      await page.locator('h1').waitFor();
      await page.locator('main :is(table, form, .card)').first().waitFor();
      expect(await page.getByRole('alert').count()).toBe(0);
      await expectGoodLooks(page);
    });

  const dialogs: [button: string, path: () => string][] = [
    ['Create key', () => 'settings/api-keys'],
    ['New webhook', () => 'webhooks'],
    ['Rotate secret', () => `webhooks/${ids.webhook}`],
    ['Replay', () => `webhooks/${ids.webhook}`],
    ['Remove', () => `settings/endpoints/${ids.endpoint}`],
    ['New batch', () => 'batches'],
    ['New flow', () => 'flows'],
    ['Columns', () => 'transfers'],
  ];
  test.each(dialogs)(
    '%s: its dialog fits a phone with letters of twice the size',
    async (...at) => {
      const [name, path] = at;
      const page = await console.visitSignedIn(`/console/${path()}`);
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      await page.setViewportSize({ width: 390, height: 844 });
      await page.getByRole('button', { name }).first().click();
      await page.getByRole('dialog').waitFor();
      await expectNoSidewaysScroll(page);
    },
  );

  test('times, types and marks stay in one line where there is room', async () => {
    const { commands, sql, store } = console.installation;
    await addDeliveries(sql, 12, { webhookId: ids.webhook });
    const { state } = await load(store, endpointDecider, streamName('endpoint', ids.untrusted));
    const error = { code: 'connection_failed', message: 'refused' } as const;
    await loseConnectivity(commands, state as Endpoint, { lastSuccessAt: null, error }, CAUSE);
    expect(await commands.catchUp('audit')).toBe(true);
    const page = await console.visitSignedIn('/console/webhooks');
    await page.setViewportSize({ width: 1440, height: 800 });
    /** The most lines that such texts take in a row of a table. */
    const lines = (texts: string) =>
      page.evaluate(`Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => {
        const tops = [...row.querySelectorAll('${texts}')].flatMap((text) => {
          const range = document.createRange();
          range.selectNodeContents(text);
          return [...range.getClientRects()].map(({ top }) => top);
        });
        return new Set(tops).size;
      }))`);
    await page.locator('.strip li').nth(11).waitFor();
    expect(await lines('.strip > li > [aria-hidden]')).toBe(1);
    expect(await lines('time > .whole')).toBe(1);
    await page.goto('/console/audit');
    await page.getByText('endpoint.connectivity_lost').waitFor();
    expect(await lines('th .mono')).toBe(1);
    expect(await lines('time > .whole')).toBe(1);
    await expectNoSidewaysScroll(page);
  });

  test('the current page and what is drawn stay visible in the few colours of the user', async () => {
    const page = await console.visitSignedIn('/console/operations', {
      forcedColors: 'active',
      colorScheme: 'dark',
    });
    const background = (name: string) =>
      page.evaluate(`getComputedStyle([...document.querySelectorAll('nav a')]
        .find(({ innerText }) => innerText.trim() === '${name}')).backgroundColor`);
    expect(await background('Operations')).not.toBe(await background('Webhooks'));
    await page.getByLabel('Theme').selectOption('Light');
    const scheme = 'getComputedStyle(document.documentElement).colorScheme';
    await expect.poll(() => page.evaluate(scheme)).toBe('light dark');
    await expectAccessible(page);
  });

  test('frames and quiet texts are stronger for a user who asks for more contrast', async () => {
    const page = await console.visitSignedIn('/console/operations', { contrast: 'no-preference' });
    const colours = () =>
      page.evaluate(`[
        getComputedStyle(document.querySelector('.card')).borderTopColor,
        getComputedStyle(document.querySelector('.subtitle')).color,
      ]`) as Promise<[string, string]>;
    for (const part of ['.card', '.subtitle']) await page.locator(part).first().waitFor();
    const [frame, quiet] = await colours();
    await page.emulateMedia({ contrast: 'more' });
    const [strongFrame, strongText] = await colours();
    expect(strongFrame).not.toBe(frame);
    expect(strongText).not.toBe(quiet);
    await expectGoodLooks(page);
  });

  test('the header leaves the screen at a zoom of 400 %, and stays at 200 %', async () => {
    const page = await console.visitSignedIn('/console/operations', {
      viewport: { width: 360, height: 225 },
    });
    await page.locator('.chart').first().waitFor();
    const bottom = `document.querySelector('.sidebar').getBoundingClientRect().bottom`;
    await page.evaluate('scrollTo(0, 600)');
    await expect.poll(() => page.evaluate(bottom)).toBeLessThanOrEqual(0);
    await page.setViewportSize({ width: 720, height: 450 });
    await page.evaluate('scrollTo(0, 700)');
    await expect.poll(() => page.evaluate(bottom)).toBeGreaterThan(0);
  });
});
