import { execFileSync } from 'node:child_process';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { removeWebhook } from '../../src/commands/webhooks.ts';
import { newId } from '../../src/domain/ids.ts';
import { ping } from '../../src/processes/webhooks/deliveries.ts';
import { describeConsole, eventually, expectAccessible } from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE } from '../support/service/installation.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhooks/receiver.ts';
import { addDeliveries, addWebhook, appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser, a service and a receiver share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('webhooks in the console', () => {
  const console = useConsole({
    WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WAYBILL_WEBHOOK_RETRY_DELAYS: '1ms,1ms',
  });
  let receiver: WebhookReceiver;
  beforeAll(async () => {
    receiver = await startWebhookReceiver();
  });
  afterAll(() => receiver?.close());

  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();
  const state = (page: Page) => page.locator('.subtitle .status').innerText();
  const idsReceived = () => receiver.received.map(({ eventId }) => eventId);

  test('failed deliveries are retried after a dead receiver recovers', LONG, async () => {
    receiver.behave(503);
    const page = await console.visitSignedIn('/console/webhooks');
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'New webhook' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('URL').fill('not a URL');
    await dialog.getByRole('button', { name: 'Register' }).click();
    await eventually(() => dialog.getByLabel('URL').getAttribute('aria-invalid')).toBe('true');
    await expectAccessible(page);
    console.pardon(400);
    // Blanks around a URL come with it from a document.
    await dialog.getByLabel('URL').fill(` ${receiver.url} `);
    await dialog.getByRole('button', { name: 'Register' }).click();
    await dialog.getByText('It is shown only once').waitFor();
    expect(await dialog.getByLabel('Signing secret', { exact: true }).inputValue()).toMatch(
      /^whsec_/,
    );
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('link', { name: receiver.url }).click();
    await eventually(() => heading(page)).toBe(receiver.url);
    await expectAccessible(page);

    await page.getByRole('button', { name: 'Ping' }).click();
    await eventually(() => heading(page)).toBe('Delivery of ping');
    await eventually(() => state(page)).toContain('Failed');
    await eventually(() => page.getByText('said 503').count()).toBe(3);
    const body = JSON.parse(await page.locator('pre').last().innerText());
    expect(body).toMatchObject({ type: 'ping', id: expect.stringMatching(/^evt_/) });
    await expectAccessible(page);

    const request = page.getByRole('region', { name: 'Request' });
    expect(await request.innerText()).toContain(`webhook-id: ${body.id}`);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await request.getByRole('button', { name: 'Copy as curl' }).click();
    await request.getByText('Copied').waitFor();
    const command = (await page.evaluate('navigator.clipboard.readText()')) as string;
    // A shell splits the command, for a `curl` that prints its arguments.
    const script = `curl() { printf '%s\\n' "$@"; }\n${command}`;
    const given = execFileSync('sh', ['-c', script], { encoding: 'utf8' }).trim().split('\n');
    expect(given[0]).toBe(receiver.url);
    expect(given).toContain(`webhook-id: ${body.id}`);
    expect(JSON.parse(given.at(-1) ?? '')).toEqual(body);

    receiver.behave(200);
    await page.goto('/console/webhooks/failed-deliveries');
    await page.getByRole('row').filter({ hasText: body.id }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: `Retry ping ${body.id}` }).click();
    await page.getByRole('heading', { name: 'No failed deliveries of acc_default' }).waitFor();
    await expectAccessible(page);
    await eventually(idsReceived).toEqual(Array(4).fill(body.id));
    await page.goBack();
    await eventually(() => state(page)).toContain('Delivered');
    await page.getByText('HTTP 200').waitFor();
  });

  test('several deliveries are retried at once: the selected ones, then all', async () => {
    receiver.behave(500);
    const id = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
    const other = await addWebhook(console.installation, receiver.url, ['transfer.cancelled']);
    for (let count = 0; count < 3; count++)
      await appendTransfer(console.installation.store, ['admitted', 'started', 'completed']);
    await appendTransfer(console.installation.store, ['cancelled']);
    const page = await console.visitSignedIn(
      `/console/webhooks/failed-deliveries?webhook_id=${id}`,
    );
    const rows = page.locator('tbody tr');
    await eventually(() => rows.count()).toBe(3);
    await eventually(() => rows.first().innerText()).toContain(receiver.url);
    expect(await page.getByRole('button', { name: 'Retry all' }).count()).toBe(0);
    receiver.behave(200);
    for (const box of (
      await page.getByRole('checkbox', { name: 'Select transfer.completed' }).all()
    ).slice(0, 2))
      await box.check();
    await page.getByRole('button', { name: 'Retry selected (2)' }).click();
    await eventually(() => rows.count()).toBe(1);

    await page.getByRole('searchbox', { name: 'Webhook id' }).fill('');
    await page.keyboard.press('Enter');
    await rows.filter({ has: page.getByTitle(other) }).waitFor();
    await page.getByLabel('Select page').check();
    await page.getByRole('button', { name: `Retry selected (${await rows.count()})` }).waitFor();
    await page.getByRole('button', { name: 'Retry all' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Retry all' }).click();
    await page.getByRole('heading', { name: 'No failed deliveries' }).waitFor();
  });

  test('the retry of several deliveries stops with the session, and continues', LONG, async () => {
    receiver.behave(500);
    const { installation } = console;
    const id = await addWebhook(installation, receiver.url, ['transfer.completed']);
    // Unlike an event, a ping goes to this webhook only.
    for (let count = 0; count < 4; count++)
      await ping(installation.sql, { webhookId: id, accountId: 'acc_default' });
    const page = await console.visitSignedIn(
      `/console/webhooks/failed-deliveries?webhook_id=${id}`,
    );
    await eventually(() => page.locator('tbody tr').count()).toBe(4);
    receiver.behave(200);
    await page.getByLabel('Select page').check();
    const retries: string[] = [];
    await page.route('**/retry', async (route) => {
      retries.push(route.request().url());
      if (retries.length === 2) await console.installation.sql`delete from work.console_sessions`;
      await route.continue();
    });
    await page.getByRole('button', { name: 'Retry selected (4)' }).click();
    const dialog = page.getByRole('dialog', { name: 'Sign in again' });
    await dialog.getByText('What you have not sent is still on the page').waitFor();
    // No message lies over it, such as one that the action failed.
    await dialog.getByLabel('API key').click();
    await page.keyboard.type(console.key);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    console.pardon(401);
    await page
      .getByRole('alert')
      .getByText('Retrying 1 delivery. The session ended before the retry of the other 3')
      .waitFor();
    await expectAccessible(page);
    expect(retries).toHaveLength(2);
    await page.getByRole('button', { name: 'Retry selected (3)' }).click();
    await page.getByRole('heading', { name: 'No failed deliveries of this webhook' }).waitFor();
    // The one whose request the service rejected was asked for twice.
    expect(retries).toHaveLength(5);
    expect(new Set(retries).size).toBe(4);
    // There is nothing left that the user would lose.
    await page.getByRole('link', { name: 'Flows', exact: true }).click();
    await eventually(() => heading(page)).toBe('Flows');
  });

  test(
    'failed deliveries are those of the account, unless all accounts are chosen',
    LONG,
    async () => {
      receiver.behave(500);
      const { installation } = console;
      for (const accountId of ['acc_default', 'acc_elsewhere']) {
        const webhookId = await addWebhook(installation, receiver.url, ['key.expiring_soon'], {
          accountId,
        });
        await ping(installation.sql, { webhookId, accountId });
      }
      const page = await console.visitSignedIn('/console/webhooks/failed-deliveries');
      const rows = page.locator('tbody tr');
      const theirs = rows.filter({ hasText: 'acc_elsewhere' });
      const dialog = page.getByRole('dialog');
      await eventually(() => rows.count()).toBe(1);
      await page.getByText('Deliveries of acc_default that failed').waitFor();
      await page.getByLabel('Accounts').selectOption('All accounts');
      await theirs.getByRole('link', { name: receiver.url }).waitFor();
      await page.getByText('Deliveries of all accounts that failed').waitFor();
      expect(page.url()).toContain('account=all');
      await page.getByRole('button', { name: 'Retry all' }).click();
      await dialog
        .getByRole('heading', { name: /^Retry \d+ failed .+ of all accounts\?$/ })
        .waitFor();
      await expectAccessible(page);
      await dialog.getByRole('button', { name: 'Close' }).click();

      await page.getByLabel('Accounts').selectOption('acc_default');
      await eventually(() => rows.count()).toBe(1);
      receiver.behave(200);
      await page.getByRole('button', { name: 'Retry all' }).click();
      await dialog
        .getByRole('heading', { name: 'Retry 1 failed delivery of acc_default?' })
        .waitFor();
      await dialog.getByRole('button', { name: 'Retry all' }).click();
      await page.getByRole('heading', { name: 'No failed deliveries of acc_default' }).waitFor();
      await page.getByRole('link', { name: 'Show all accounts' }).click();
      await theirs.getByRole('button', { name: 'Retry ping' }).click();
      await page.getByRole('heading', { name: 'No failed deliveries of all accounts' }).waitFor();
    },
  );

  test('a webhook shows its success rate and its last failure', LONG, async () => {
    receiver.behave(500);
    const id = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
    const page = await console.visitSignedIn(`/console/webhooks/${id}`);
    const success = page.getByRole('region', { name: 'Success' });
    await success.getByText('None in 30 days').waitFor();
    // No other webhook gets a ping.
    const deliver = () =>
      ping(console.installation.sql, { webhookId: id, accountId: 'acc_default' });
    await deliver();
    await eventually(() => success.innerText()).toContain('0 % (0 of the last 1 that ended)');
    expect(await success.innerText()).toContain('answered 500');
    receiver.behave(200);
    await deliver();
    await eventually(() => success.innerText()).toContain('50 % (1 of the last 2 that ended)');
    await expectAccessible(page);
    await success.getByRole('link', { name: 'ping' }).click();
    await eventually(() => heading(page)).toBe('Delivery of ping');
    await eventually(() => state(page)).toContain('Failed');
    await page.getByRole('button', { name: 'Retry' }).click();
    await eventually(() => state(page)).toContain('Delivered');
  });

  test('a webhook counts the attempts that fail before their deliveries end', LONG, async () => {
    const id = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
    // One was delivered at once, two failed twice and wait for long.
    await console.installation.sql`
      with added as (
        insert into work.deliveries (id, webhook_id, account_id, event_id, event_type, body, status,
            attempts, ended_at, last_status_code)
        select 'dlv_wait_' || n, ${id}, 'acc_default', 'evt_wait_' || n, 'transfer.completed', '{}',
               case n when 0 then 'delivered' else 'pending' end, case n when 0 then 1 else 2 end,
               case n when 0 then now() end, case n when 0 then 200 else 503 end
          from generate_series(0, 2) as n
        returning *)
      insert into work.pending_deliveries (delivery_id, webhook_id, event_id, due_at, tries)
      select id, webhook_id, event_id, now() + interval '1 hour', 2 from added where status = 'pending'`;
    const page = await console.visitSignedIn(`/console/webhooks/${id}`);
    const success = page.getByRole('region', { name: 'Success' });
    const fact = (name: string) => success.locator('.facts div').filter({ hasText: name });
    await eventually(() => fact('Success rate').innerText()).toContain('(1 of the last 1 that');
    expect(await fact('Failed attempts').innerText()).toContain('4 of 5 for the last 3');
    expect(await fact('Waiting for a retry').innerText()).toMatch(
      /2 deliveries\s+Next attempt in \d+/,
    );
    await expectAccessible(page);
  });

  test(
    'a rejected retry is shown for each selected delivery, which stays selected',
    LONG,
    async () => {
      receiver.behave(500);
      const { installation } = console;
      const accountId = 'acc_partly';
      const gone = await addWebhook(installation, receiver.url, ['transfer.completed'], {
        accountId,
      });
      await addWebhook(installation, receiver.url, ['transfer.failed'], { accountId });
      for (const end of ['completed', 'failed', 'failed'] as const) {
        await appendTransfer(installation.store, ['admitted', 'started', end], {
          account_id: accountId,
        });
      }
      const page = await console.visitSignedIn('/console/webhooks/failed-deliveries?account=all');
      const rows = page.locator('tbody tr');
      await eventually(() => rows.count()).toBe(3);
      await removeWebhook(installation.commands, gone, CAUSE);
      receiver.behave(200);
      await page.getByLabel('Select page').check();
      await page.getByRole('button', { name: 'Retry selected (3)' }).click();
      await page
        .getByRole('alert')
        .filter({
          hasText: 'Retrying 2 deliveries. 1 rejected: The webhook of this delivery was removed',
        })
        .waitFor();
      console.pardon(404);
      await eventually(() => rows.count()).toBe(1);
      expect(await rows.getByRole('checkbox').isChecked()).toBe(true);
      expect(await rows.innerText()).toContain('transfer.completed');
      await expectAccessible(page);
      await page.getByRole('button', { name: 'Retry selected (1)' }).click();
      await page.getByRole('dialog').getByRole('heading', { name: 'Action failed' }).waitFor();
      console.pardon(404);
    },
  );

  test('the text in the search field stays while the list reloads', LONG, async () => {
    const unknown = newId('whk');
    const page = await console.visitSignedIn('/console/webhooks/failed-deliveries');
    const field = page.getByRole('searchbox', { name: 'Webhook id' });
    await field.pressSequentially(unknown);
    // The second request starts after the first answer is shown.
    for (let looks = 0; looks < 2; looks++)
      await page.waitForResponse((answer) => answer.url().includes('/v1/deliveries?'));
    expect(await field.inputValue()).toBe(unknown);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'No failed deliveries of this webhook' }).waitFor();
    expect(page.url()).toContain(`webhook_id=${unknown}`);
    await page.getByRole('link', { name: 'Show all webhooks' }).click();
    await eventually(() => field.inputValue()).toBe('');
  });

  test('a delivery links to its webhook and transfer of the same account', LONG, async () => {
    receiver.behave(200);
    const { installation } = console;
    for (const [accountId, links] of [
      ['acc_default', 2],
      ['acc_other', 0],
    ] as const) {
      const webhookId = await addWebhook(installation, receiver.url, ['transfer.cancelled'], {
        accountId,
      });
      const { transferId } = await appendTransfer(installation.store, ['cancelled'], {
        account_id: accountId,
      });
      const find = () =>
        installation.sql<
          { id: string }[]
        >`select id from work.deliveries where webhook_id = ${webhookId}`;
      await eventually(async () => (await find()).length).toBe(1);
      const page = await console.visitSignedIn(
        `/console/webhooks/${webhookId}/deliveries/${(await find())[0]?.id}`,
      );
      const facts = page.locator('.facts');
      await facts.getByText(transferId).waitFor();
      expect(await facts.getByRole('link').count()).toBe(links);
      await facts.getByText(receiver.url).waitFor();
    }
  });

  test('a webhook is changed, replayed, given a new secret, and removed', LONG, async () => {
    receiver.behave(200);
    await appendTransfer(console.installation.store, ['admitted', 'started', 'failed']);
    const id = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
    const page = await console.visitSignedIn(`/console/webhooks/${id}`);
    const dialog = page.getByRole('dialog');
    await page.getByRole('heading', { name: 'No deliveries yet' }).waitFor();
    await page.getByRole('button', { name: 'Edit' }).click();
    await dialog.getByRole('checkbox', { name: 'transfer.completed' }).uncheck();
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await dialog.getByText('must').waitFor();
    console.pardon(400);
    await dialog.getByRole('checkbox', { name: 'transfer.failed' }).check();
    await dialog.getByRole('checkbox', { name: 'Enabled' }).uncheck();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await eventually(() => state(page)).toContain('Disabled');
    await page.getByRole('button', { name: 'Edit' }).click();
    await dialog.getByRole('checkbox', { name: 'Enabled' }).check();
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await eventually(() => state(page)).toContain('Enabled');

    await page.getByRole('button', { name: 'Replay' }).click();
    await expectAccessible(page);
    await dialog.getByLabel('From').fill('2026-01-01T00:00');
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await page.getByRole('link', { name: 'transfer.failed' }).first().waitFor();
    const deliveries = page.getByRole('table', { name: 'Deliveries, newest first' });
    await eventually(() => deliveries.innerText()).toContain('Delivered');
    const latest = page.getByRole('list', { name: 'Latest deliveries, oldest first' });
    await latest.getByText('Delivered, HTTP 200').first().waitFor({ state: 'attached' });
    await page.getByLabel('State').selectOption('Failed');
    await page.getByRole('heading', { name: 'No deliveries in this state' }).waitFor();
    expect(page.url()).toContain('status=failed');

    await page.getByRole('button', { name: 'Rotate secret' }).click();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByText('It is shown only once').waitFor();
    for (let presses = 0; presses < 3; presses++) await page.keyboard.press('Escape');
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByText('Old secret expires').waitFor();

    await page.getByRole('button', { name: 'Remove' }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await eventually(() => heading(page)).toBe('Webhooks');
    await eventually(
      async () =>
        (
          await fetch(`${console.url}/v1/webhooks/${id}`, {
            headers: { authorization: `Bearer ${console.key}` },
          })
        ).status,
    ).toBe(404);
    console.pardonPolls(404);
  });

  test(
    'a webhook is not overwritten by a form that is older than another change',
    LONG,
    async () => {
      const id = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
      const page = await console.visitSignedIn(`/console/webhooks/${id}`);
      const other = await page.context().newPage();
      await other.goto(`/console/webhooks/${id}`);
      const dialog = (of: Page) => of.getByRole('dialog', { name: 'Edit webhook' });
      for (const tab of [page, other]) await tab.getByRole('button', { name: 'Edit' }).click();
      await dialog(other).getByRole('checkbox', { name: 'transfer.failed' }).check();
      await dialog(other).getByRole('button', { name: 'Save changes' }).click();
      await dialog(other).waitFor({ state: 'detached' });
      await dialog(page).getByRole('checkbox', { name: 'Enabled' }).uncheck();
      await dialog(page).getByRole('button', { name: 'Save changes' }).click();
      await dialog(page).getByText('The webhook has changed').waitFor();
      await expectAccessible(page);
      await dialog(page).getByRole('button', { name: 'Load the current version' }).click();
      await page.getByText('transfer.failed', { exact: true }).waitFor();
      expect(await state(page)).toContain('Enabled');
    },
  );

  test('a long list has a lower bound of its count, and keeps place and focus', LONG, async () => {
    const webhookId = await addWebhook(console.installation, receiver.url, ['transfer.completed']);
    await addDeliveries(console.installation.sql, 10_001, { webhookId });
    // Numbers are English like the words, not 10.000 beside 1.5 MiB.
    const page = await console.visitSignedIn(
      `/console/webhooks/failed-deliveries?webhook_id=${webhookId}`,
      { locale: 'de-DE' },
    );
    const pager = page.getByRole('navigation', { name: 'Pages' });
    await eventually(() => pager.innerText()).toContain('1–50 of at least 10,000');
    await page.locator('tbody tr').nth(30).scrollIntoViewIfNeeded();
    const place = await page.evaluate('scrollY');
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor();
    await page.goBack();
    await eventually(() => page.evaluate('scrollY')).toBe(place);

    await page.goto(`/console/webhooks/${webhookId}?offset=9975`);
    await eventually(() => pager.innerText()).toContain('9,976–10,000 of at least 10,000');
    const next = pager.getByRole('link', { name: 'Next' });
    await next.focus();
    await page.keyboard.press('Enter');
    await eventually(() => pager.innerText()).toContain('10,001–10,001 of at least 10,000');
    expect(await next.getAttribute('aria-disabled')).toBe('true');
    expect(await next.and(page.locator(':focus')).count()).toBe(1);
  });
});
