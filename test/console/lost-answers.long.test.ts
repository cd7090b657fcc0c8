import type { Locator, Page, Route } from 'playwright-core';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { describeConsole, eventually, expectAccessible } from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { startShelf } from '../support/file-servers/sftp/shelf.ts';
import { freePort } from '../support/network/free-port.ts';
import { flowsOf } from '../support/service/flows.ts';
import { configureEndpoint } from '../support/service/installation.ts';
import {
  type ReceivedRequest,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../support/webhooks/receiver.ts';
import { addWebhook, appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser, a service and a receiver share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('a second click after a lost answer', () => {
  const console = useConsole({ WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8' });
  let receiver: WebhookReceiver;
  beforeAll(async () => {
    receiver = await startWebhookReceiver();
  });
  afterAll(() => receiver?.close());

  /** Clicks a button. The service carries out the request, and its answer is lost. */
  async function clickInVain(page: Page, path: string, name: string): Promise<Locator> {
    const lose = async (route: Route) => {
      await route.fetch();
      await route.abort();
    };
    await page.route(`**${path}`, lose, { times: 1 });
    const button = page.locator('main, dialog').last().getByRole('button', { name, exact: true });
    await button.click();
    await page.locator('main, dialog').last().getByText('The service did not respond').waitFor();
    console.pardon('lost');
    return button;
  }
  const submitTwice = async (page: Page, path: string, name: string): Promise<void> =>
    (await clickInVain(page, path, name)).click();
  const get = async (path: string) => {
    const headers = { authorization: `Bearer ${console.key}` };
    return (await fetch(`${console.url}/v1${path}`, { headers })).json() as Promise<{
      data: Record<string, unknown>[];
    }>;
  };
  async function shownSecret(page: Page, label: string): Promise<string> {
    const dialog = page.getByRole('dialog');
    await dialog.getByText('It is shown only once').waitFor();
    const secret = await dialog.getByLabel(label, { exact: true }).inputValue();
    await dialog.getByRole('button', { name: 'Done' }).click();
    return secret;
  }
  /** Pings from the page of the webhook, and verifies what arrives. */
  async function expectSigning(page: Page, secret: string): Promise<void> {
    const before = receiver.received.length;
    await page.getByRole('button', { name: 'Ping' }).click();
    await eventually(() => receiver.received.length).toBe(before + 1);
    const { body, headers } = receiver.received.at(-1) as ReceivedRequest;
    const verify = () => new Webhook(secret).verify(body, headers as Record<string, string>);
    expect(verify).not.toThrow();
  }

  test('registers a webhook once, with the secret that is shown', async () => {
    const page = await console.visitSignedIn('/console/webhooks');
    await page.getByRole('button', { name: 'New webhook' }).click();
    await page.getByLabel('URL').fill(receiver.url);
    await submitTwice(page, '/v1/webhooks', 'Register');
    const secret = await shownSecret(page, 'Signing secret');
    const { data } = await get('/webhooks');
    expect(data.length).toBe(1);
    await page.getByRole('link', { name: receiver.url }).click();
    await expectSigning(page, secret);
  });

  test('replaces a secret once, so the old one stays valid', async () => {
    const id = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
    const page = await console.visitSignedIn(`/console/webhooks/${id}`);
    await page.getByRole('button', { name: 'Rotate secret' }).click();
    await submitTwice(page, '/rotate-secret', 'Rotate');
    await expectSigning(page, await shownSecret(page, 'New signing secret'));
    const events = await console.installation.store.read(`webhook-${id}`);
    expect(events.map(({ type }) => type)).toEqual([
      'webhook.registered',
      'webhook.secret_rotated',
    ]);
  });

  test('replays events once, and pings once', async () => {
    const { installation } = console;
    const { eventIds } = await appendTransfer(installation.store, ['cancelled']);
    await eventually(async () => (await get('/transfers?status=cancelled')).data.length).toBe(1);
    const id = await addWebhook(installation, receiver.url, ['transfer.cancelled']);
    const deliveries = async () =>
      (await get(`/webhooks/${id}/deliveries`)).data.map(({ event_id }) => event_id);
    const page = await console.visitSignedIn(`/console/webhooks/${id}`);
    await page.getByRole('button', { name: 'Replay' }).click();
    const replay = await clickInVain(page, '/replay', 'Replay');
    await eventually(deliveries).toEqual(eventIds.slice(-1));
    await installation.sql`delete from work.deliveries where webhook_id = ${id}`;
    await replay.click();
    await page.getByText('Replay started').waitFor();

    const ping = await clickInVain(page, '/ping', 'Ping');
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await ping.click();
    await page.getByRole('heading', { level: 1, name: 'Delivery of ping' }).waitFor();
    expect(await deliveries()).toHaveLength(1);
  });

  test('runs a flow once, and again after an answer', async () => {
    const shelf = await startShelf();
    await configureEndpoint(console.installation, shelf.endpoint);
    const flow = flowsOf(console);
    const id = await flow.create('out', {
      source: { uri: 'sftp://shelf/' },
      destination_uri: 'sftp://shelf/in/',
    });
    const requested = async () =>
      (await flow.events(id)).filter(({ type }) => type === 'flow.run_requested').length;
    const page = await console.visitSignedIn(`/console/flows/${id}`);
    const run = await clickInVain(page, '/runs', 'Run now');
    await eventually(async () => (await flow.events(id)).at(-1)?.type).toBe('flow.run_empty');
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await run.click();
    await page.getByText('Run requested').waitFor();
    expect(await requested()).toBe(1);
    await run.click();
    await eventually(requested).toBe(2);
    await shelf.stop();
  });

  test('creates a key once, and says that it is lost', async () => {
    const page = await console.visitSignedIn('/console/settings/api-keys');
    await page.getByRole('button', { name: 'Create key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('nightly');
    await submitTwice(page, '/v1/keys', 'Create key');
    await dialog.getByText('The key nightly exists, but it is lost').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Close' }).press('Enter');
    await page.getByRole('button', { name: 'Revoke nightly' }).waitFor();
    const { data } = await get('/keys');
    expect(data.filter(({ name }) => name === 'nightly').length).toBe(1);
  });

  test('creates an endpoint once, and opens its page', async () => {
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    await page.getByLabel('Name', { exact: true }).fill('partner');
    await page.getByLabel('Host', { exact: true }).fill('127.0.0.1');
    await page.getByLabel('Port', { exact: true }).fill(String(await freePort()));
    await page.getByLabel('User name').fill('nobody');
    await page.getByLabel('Password').fill('none');
    await submitTwice(page, '/v1/endpoints', 'Create endpoint');
    await page.getByRole('heading', { level: 1, name: 'partner' }).waitFor();

    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('User name').fill('somebody');
    await page.getByRole('button', { name: 'Replace credentials' }).click();
    await page.getByLabel('Password').fill('none');
    await submitTwice(page, '/v1/endpoints/*', 'Save changes');
    await page.getByText('It may have saved your changes').waitFor();
    console.pardon(412);
  });
});
