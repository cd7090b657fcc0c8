import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { describeConsole, eventually, expectAccessible } from '../support/console/console.ts';
import { tabTo, useConsole } from '../support/console/use-console.ts';
import { LONG } from '../support/run/long.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const LIST = '/console/settings/api-keys';

await describeConsole('API keys in the console', () => {
  const console = useConsole();
  const dialogOf = (page: Page) => page.getByRole('dialog');
  const rowOf = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
  const statusWith = async (key: string) =>
    (await fetch(`${console.url}/v1/transfers`, { headers: { authorization: `Bearer ${key}` } }))
      .status;
  const openForm = async (page: Page) => {
    await page.getByRole('button', { name: 'Create key' }).click();
    return dialogOf(page);
  };

  test('are created, shown once, copied, used, and revoked', async () => {
    const page = await console.visitSignedIn(LIST, {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    await rowOf(page, 'Test administrator').waitFor();
    await expectAccessible(page);
    const dialog = await openForm(page);
    await dialog.getByLabel('Name').fill('nightly job');
    await dialog.getByRole('checkbox', { name: 'audit:read' }).check();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Create key' }).click();

    await dialog.getByText('It is shown only once').waitFor();
    const key = await dialog.getByLabel('API key', { exact: true }).inputValue();
    expect(key).toMatch(/^wb_[A-Za-z0-9]{38}$/);
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Copy API key' }).click();
    await dialog.getByText('Copied').waitFor();
    await eventually(() => page.evaluate('navigator.clipboard.readText()')).toBe(key);
    expect(await statusWith(key)).toBe(200);
    await dialog.getByRole('button', { name: 'Done' }).click();

    const row = rowOf(page, 'nightly job');
    await row.waitFor();
    const text = await row.innerText();
    for (const part of [
      'transfers:write',
      'audit:read',
      'acc_default',
      'Active',
      `wb_…${key.slice(-4)}`,
    ])
      expect(text).toContain(part);
    expect(await page.content()).not.toContain(key);

    await row.getByRole('button', { name: 'Revoke nightly job' }).click();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Close' }).click();
    expect(await statusWith(key)).toBe(200);
    await row.getByRole('button', { name: 'Revoke nightly job' }).click();
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('Revoked and expired keys (1)').click();
    await eventually(() => row.innerText()).toContain('Revoked');
    expect(await row.getByRole('button').count()).toBe(0);
    expect(await statusWith(key)).toBe(401);
    await expectAccessible(page);
  });

  test('stay visible until the user closes them, even if they cannot be copied', LONG, async () => {
    const page = await console.visitSignedIn(LIST);
    const making = Promise.withResolvers<void>();
    await page.route('**/v1/keys', async (route) => {
      if (route.request().method() === 'POST') await making.promise;
      await route.continue();
    });
    // Chromium lets a page prevent the first attempts.
    const pressEscape = async () => {
      for (let presses = 0; presses < 3; presses++) await page.keyboard.press('Escape');
    };
    const dialog = await openForm(page);
    await dialog.getByLabel('Name').fill('kept in sight');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await eventually(() => dialog.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true);
    await pressEscape();
    making.resolve();
    await dialog.getByText('It is shown only once').waitFor();
    await pressEscape();
    // The clipboard is missing if the console is not served over TLS.
    await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`);
    await dialog.getByRole('button', { name: 'Copy API key' }).click();
    await dialog.getByRole('status').filter({ hasText: 'Select the text and copy it' }).waitFor();
    await expectAccessible(page);
    expect(await dialog.getByLabel('API key', { exact: true }).inputValue()).toMatch(/^wb_/);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await eventually(() => dialog.count()).toBe(0);
  });

  test('can have a role instead of scopes', LONG, async () => {
    const page = await console.visitSignedIn(LIST);
    const dialog = await openForm(page);
    await dialog.getByLabel('Name').fill('watcher');
    await dialog.getByLabel('Role').selectOption('viewer');
    expect(await dialog.getByRole('checkbox').count()).toBe(0);
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Create key' }).click();
    const key = await dialog.getByLabel('API key', { exact: true }).inputValue();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await eventually(() => rowOf(page, 'watcher').innerText()).toContain('viewer');
    expect(await statusWith(key)).toBe(200);
  });

  test('that expire soon are not said to be none before the list is there', LONG, async () => {
    const page = await console.visitSignedIn('/console');
    const late = Promise.withResolvers<void>();
    await page.route('**/v1/keys', async (route) => {
      await late.promise;
      await route.continue();
    });
    await page.getByRole('link', { name: 'API keys', exact: true }).click();
    await page.evaluate(`history.pushState(null, '', '${LIST}?state=expiring');
      dispatchEvent(new PopStateEvent('popstate'))`);
    await page.getByRole('status').filter({ hasText: 'Loading' }).waitFor();
    const none = page.getByText('There are no keys that expire soon.');
    expect(await none.count()).toBe(0);
    late.resolve();
    await none.waitFor();
  });

  test('show an error at its field, and a mark if they expire soon', LONG, async () => {
    const page = await console.visitSignedIn(LIST);
    const dialog = await openForm(page);
    await dialog.getByRole('checkbox', { name: 'transfers:write' }).uncheck();
    await dialog.getByLabel('Expires after').selectOption('Never (if the installation allows it)');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await eventually(() => dialog.getByText('must not be empty').count()).toBe(2);
    await expectAccessible(page);
    const name = '<img src=x onerror=alert(1)>';
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByRole('checkbox', { name: 'metrics:read' }).check();
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByText('does not allow keys that never expire').waitFor();
    expect(await dialog.getByLabel('Expires after').getAttribute('aria-invalid')).toBe('true');
    console.pardon(400);
    await dialog.getByLabel('Expires after').selectOption('7 days');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await eventually(() => rowOf(page, name).innerText()).toContain('Expires soon');
    await expectAccessible(page);
  });

  test('can be created with the keyboard alone, and the focus returns', LONG, async () => {
    const page = await console.visitSignedIn(LIST);
    const { keyboard } = page;
    const dialog = dialogOf(page);
    const create = page.getByRole('button', { name: 'Create key' }).first();
    await tabTo(page, create);
    await keyboard.press('Enter');
    await tabTo(page, dialog.getByLabel('Name'));
    await keyboard.type('by keyboard');
    await tabTo(page, dialog.getByRole('checkbox', { name: 'admin' }));
    await keyboard.press('Space');
    await keyboard.press('Enter');
    const shown = dialog.getByLabel('API key', { exact: true }).and(page.locator(':focus'));
    await eventually(() => shown.count()).toBe(1);
    await tabTo(page, dialog.getByRole('button', { name: 'Done' }));
    await keyboard.press('Enter');
    await eventually(() => create.and(page.locator(':focus')).count()).toBe(1);
    await eventually(() => rowOf(page, 'by keyboard').innerText()).toContain('admin');
    await keyboard.press('Enter');
    await dialog.waitFor();
    // The listener comes after that of the page. A dialog that stays until the next task would
    // ignore the Enter below.
    await page.evaluate(`{
      const dialog = document.querySelector('dialog');
      dialog.addEventListener('cancel', () => {
        window.afterwards = [dialog.isConnected, document.activeElement.innerText.trim()];
      });
    }`);
    await keyboard.press('Escape');
    expect(await page.evaluate('afterwards')).toEqual([false, 'Create key']);

    // What was typed is not lost by one key.
    await keyboard.press('Enter');
    await tabTo(page, dialog.getByLabel('Name'));
    await keyboard.type('half-filled');
    await keyboard.press('Escape');
    await dialog.getByRole('alert').getByText('Press Escape again').waitFor();
    expect(await dialog.getByLabel('Name').inputValue()).toBe('half-filled');
    await expectAccessible(page);
    await keyboard.press('Escape');
    await eventually(() => dialog.count()).toBe(0);
  });
});
