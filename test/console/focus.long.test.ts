import type { Locator, Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { ping } from '../../src/processes/webhooks/deliveries.ts';
import { describeConsole, eventually, provideKey } from '../support/console/console.ts';
import { tabTo, useConsole } from '../support/console/use-console.ts';
import { configureEndpoint } from '../support/service/installation.ts';
import { startWebhookReceiver } from '../support/webhooks/receiver.ts';
import { addWebhook, appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('the focus in the console', () => {
  const console = useConsole({
    WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WAYBILL_WEBHOOK_RETRY_DELAYS: '1ms',
  });
  const hasFocus = (page: Page, control: Locator) =>
    eventually(() => control.and(page.locator(':focus')).count()).toBe(1);
  const press = async (page: Page, control: Locator) => {
    await tabTo(page, control);
    await page.keyboard.press('Enter');
  };

  test('stays in the list when filters are cleared, saved, applied and deleted', async () => {
    await appendTransfer(console.installation.store, ['cancelled']);
    const page = await console.visitSignedIn('/console/transfers?status=cancelled');
    const heading = page.getByRole('heading', { level: 1 });
    const saved = page.getByRole('navigation', { name: 'Saved filters' });
    const clear = saved.getByRole('link', { name: 'Clear filters' });
    const dialog = page.getByRole('dialog');
    const save = async (name: string) => {
      await press(page, saved.getByRole('button', { name: 'Save filter', exact: true }));
      await page.keyboard.type(name);
      await page.keyboard.press('Enter');
      await saved.getByRole('link', { name }).waitFor();
    };
    await page.locator('tbody tr').first().waitFor();
    await press(page, clear);
    await clear.waitFor({ state: 'detached' });
    await hasFocus(page, heading);

    await page.goto('/console/transfers?status=cancelled');
    await save('Cancelled');
    await hasFocus(page, heading);
    await page.goto('/console/transfers?status=failed');
    await save('Failed');
    const cancelled = saved.getByRole('link', { name: 'Cancelled' });
    await press(page, cancelled);
    await eventually(() => page.url()).toContain('status=cancelled');
    await eventually(() => cancelled.getAttribute('aria-current')).toBe('page');
    await page.locator('tbody tr').first().waitFor();
    await hasFocus(page, cancelled);
    await press(page, clear);
    await clear.waitFor({ state: 'detached' });
    await hasFocus(page, heading);

    await press(page, saved.getByRole('button', { name: 'Edit saved filters' }));
    await press(page, dialog.getByRole('button', { name: 'Delete Cancelled' }));
    await hasFocus(page, dialog.getByRole('button', { name: 'Delete Failed' }));
    await page.keyboard.press('Enter');
    const submit = dialog.getByRole('button', { name: 'Save changes' });
    await hasFocus(page, submit);
    await page.keyboard.press('Enter');
    await saved.waitFor({ state: 'detached' });
    await hasFocus(page, heading);
  });

  test('is never under the header of a narrow page, nor under its menu', async () => {
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    await page.setViewportSize({ width: 320, height: 480 });
    /** How far below the header the control with the focus begins. */
    const distance = () =>
      page.evaluate(`document.activeElement.getBoundingClientRect().top -
        document.querySelector('header.sidebar').getBoundingClientRect().bottom`);
    const isInForm = () => page.evaluate("document.activeElement.closest('form') !== null");
    const menu = page.getByRole('button', { name: 'Menu' });
    const first = page.getByLabel('Name', { exact: true });
    await page.getByRole('link', { name: 'Cancel' }).focus();
    let controls = 0;
    while (await isInForm()) {
      expect(await distance()).toBeGreaterThanOrEqual(0);
      await page.keyboard.press('Shift+Tab');
      controls++;
    }
    expect(controls).toBeGreaterThan(5);

    await menu.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Sign out' }).focus();
    expect(await menu.getAttribute('aria-expanded')).toBe('true');
    await page.keyboard.press('Tab');
    await hasFocus(page, first);
    await eventually(() => menu.getAttribute('aria-expanded')).toBe('false');
    expect(await distance()).toBeGreaterThanOrEqual(0);
  });

  test('is on the button that does no harm where an action cannot be undone', async () => {
    await provideKey(console.installation, {
      name: 'nightly',
      scopes: ['transfers:read'],
    });
    const page = await console.visitSignedIn('/console/settings/api-keys');
    const revoke = page.getByRole('button', { name: 'Revoke nightly' });
    const dialog = page.getByRole('dialog');
    await press(page, revoke);
    await hasFocus(page, dialog.getByRole('button', { name: 'Close' }));
    // The other one has the colour of the button that asked.
    const colour = (selector: string) =>
      page.evaluate(`getComputedStyle(document.querySelector('${selector}')).color`);
    expect(await colour('dialog [type=submit]')).toBe(await colour('tbody button'));
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await hasFocus(page, revoke);
  });

  test('goes to the fields that a button adds', async () => {
    const id = await configureEndpoint(console.installation, {
      name: 'shelf',
      protocol: 'sftp',
      host: 'shelf.invalid',
      username: 'u',
      password: 'p',
    });
    const page = await console.visitSignedIn('/console/transfers/new');
    const add = page.getByRole('button', { name: 'Add metadata' });
    for (const number of [1, 2]) {
      await add.focus();
      await page.keyboard.press('Enter');
      await hasFocus(page, page.getByLabel(`Name ${number}`));
    }

    await page.goto(`/console/settings/endpoints/${id}/edit`);
    const press = async (name: string) => {
      await page.getByRole('button', { name }).focus();
      await page.keyboard.press('Enter');
    };
    await press('Replace credentials');
    await hasFocus(page, page.getByLabel('Sign in with'));
    await press('Keep credentials');
    await hasFocus(page, page.getByRole('button', { name: 'Replace credentials' }));
    await page.locator('details > summary').focus();
    await page.keyboard.press('Enter');
    for (const number of [1, 2]) {
      await press('Add a window');
      const window = page.getByRole('group', { name: `Window ${number}` });
      await hasFocus(page, window.getByLabel('Days'));
    }
  });

  test('goes to the next delivery after the retry of one', async () => {
    const receiver = await startWebhookReceiver();
    receiver.behave(500);
    const accountId = 'acc_default';
    const webhookId = await addWebhook(console.installation, receiver.url, ['transfer.failed']);
    for (let count = 0; count < 3; count++)
      await ping(console.installation.sql, { webhookId, accountId });
    const page = await console.visitSignedIn('/console/webhooks/failed-deliveries');
    const rows = page.locator('tbody tr');
    const retry = rows.getByRole('button', { name: 'Retry ping' });
    await eventually(() => rows.count()).toBe(3);
    receiver.behave(200);
    const next = await rows.nth(1).locator('.mono').first().innerText();
    await press(page, retry.first());
    await eventually(() => rows.count()).toBe(2);
    await hasFocus(page, page.getByRole('button', { name: `Retry ping ${next}` }));
    await press(page, retry.last());
    await eventually(() => rows.count()).toBe(1);
    await hasFocus(page, page.getByRole('button', { name: `Retry ping ${next}` }));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'No failed deliveries' }).waitFor();
    await hasFocus(page, page.getByRole('heading', { level: 1 }));
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Failed deliveries');
    await receiver.close();
  });

  test('returns with Back to the link that was followed, on a page of any length', async () => {
    const { store } = console.installation;
    for (let count = 0; count < 30; count++) await appendTransfer(store, ['cancelled']);
    const { transferId } = await appendTransfer(store, ['cancelled'], { file_name: 'mine.csv' });
    for (const path of [
      '/console/transfers?status=cancelled&order=created_at',
      `/console/transfers?q=${transferId}`,
    ]) {
      const page = await console.visitSignedIn(path);
      const link = page.getByRole('link', { name: 'mine.csv' });
      await link.click();
      const heading = page.getByRole('heading', { level: 1, name: 'mine.csv' });
      await hasFocus(page, heading);
      await page.goBack();
      await hasFocus(page, link);
      await eventually(() => link.and(page.locator(':focus')).isVisible()).toBe(true);
      // Another page takes the focus as ever.
      await page.goForward();
      await hasFocus(page, heading);
    }
  });
});
